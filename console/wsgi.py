"""WSGI entry point of the web server."""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()
