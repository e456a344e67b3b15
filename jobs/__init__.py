"""Jobs of this deployment's own: a tenant comes, a tenant leaves. The jobs of the operations are the library's."""
