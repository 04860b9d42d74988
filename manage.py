#!/usr/bin/env python
"""Entry point of every management command."""

import os
import sys


def main() -> None:
    # One BLAS thread, before numpy is imported: with the default threads 20 fits take ten times as long (ADR 0002).
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:  # a setting: its line says which, and the mend
        sys.exit(f"Signalbox cannot start: {error}")


if __name__ == "__main__":
    main()
