"""Secrets by name: a model setting names one of the server's environment, and only of those meant for it."""

import re

from django.core.exceptions import ImproperlyConfigured

from console import env
from console.providers import ProviderError

# Whoever may set an inventory's model chooses the host that the key is sent to: SECRET_KEY must be out of reach.
KEY_NAME = re.compile(r"\A(?:OPENAI|SIGNALBOX_KEY)_[A-Z0-9_]{1,80}(?<!_FILE)\Z")
KEY_HINT = "Name a variable that begins with SIGNALBOX_KEY_ or OPENAI_, such as SIGNALBOX_KEY_JUDGE."


def secret(name: str) -> str:
    """The variable's value, or the content of the file that ``NAME_FILE`` names. Raises ProviderError (no_key)."""
    if not KEY_NAME.match(name):
        raise ProviderError("no_key", f"{name[:60]!r} cannot name an API key. {KEY_HINT}", passing=False)
    try:
        value = env.text(name).strip()
    except ImproperlyConfigured as error:
        raise ProviderError("no_key", str(error), passing=False) from None
    if not value:
        raise ProviderError(
            "no_key", f"The server has no {name}. Set it, or {name}_FILE, where web and workers start.", passing=False
        )
    return value
