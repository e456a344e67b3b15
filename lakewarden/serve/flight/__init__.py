"""Arrow Flight SQL, for ADBC and its kin: the service over gRPC, its messages, tickets and answers."""
