"""The operator's package index, as programs under test find it: through variables and configuration files."""

import os

NAMES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


def index_variables():
    """The variables of this process that say where packages come from."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.upper() in NAMES or name.startswith(("PIP_", "UV_")) and not name.startswith("UV_CACHE")
    }
