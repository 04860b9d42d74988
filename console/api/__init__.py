"""The HTTP API under ``/api/v1``: thin routers over the services that the pages call. The contract is docs/api.md."""
