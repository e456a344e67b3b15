"""Transaction blocks: the statements between BEGIN and COMMIT."""
