"""Settings, read from the environment (docs/settings.md lists each one)."""

import os
from pathlib import Path
from urllib.parse import urlsplit

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from dotenv import load_dotenv

from console import env

BASE_DIR = Path(__file__).resolve().parent.parent
load_dotenv(BASE_DIR / ".env")
VAR_DIR = Path(env.text("SIGNALBOX_VAR_DIR", str(BASE_DIR / "var")))
env.folder(VAR_DIR)

DEBUG = env.boolean("DEBUG")
SECRET_KEY = env.secret_key(VAR_DIR)
PORT = env.integer("PORT", 8000, low=1, high=65535)
ALLOWED_HOSTS = [h.strip() for h in env.text("ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]").split(",") if h.strip()]
PROXY_HOPS = env.integer("PROXY_HOPS", 0, low=0, high=10)
CSRF_TRUSTED_ORIGINS = [o.strip() for o in env.text("CSRF_TRUSTED_ORIGINS").split(",") if o.strip()]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "template_partials",
    "csp",
    "django_celery_beat",
    "console",
]
MIDDLEWARE = [
    "console.middleware.RequestIdMiddleware",
    "console.middleware.WholeRequestMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "console.middleware.CleanTextMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "console.middleware.UserZoneMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "console.middleware.VaryOnHtmxMiddleware",
]
ROOT_URLCONF = "console.urls"
WSGI_APPLICATION = "console.wsgi.application"
ASGI_APPLICATION = "console.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.views.frame.frame",
            ],
        },
    }
]

DATABASES = {
    "default": env.database(
        env.text("DATABASE_URL", f"sqlite:///{VAR_DIR / 'signalbox.sqlite3'}"),
        lock_s=env.integer("LOCK_TIMEOUT_S", 20, low=1, high=600),
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "console.User"
LOGIN_URL, LOGIN_REDIRECT_URL, LOGOUT_REDIRECT_URL = "sign-in", "front", "sign-in"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

LANGUAGE_CODE, TIME_ZONE, USE_I18N, USE_TZ = "en", "UTC", True, True
STATIC_URL = "/static/"
STATIC_ROOT = VAR_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if not DEBUG and (STATIC_ROOT / "staticfiles.json").exists()
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
WHITENOISE_USE_FINDERS = True

# No inline script or style, no eval, no CDN: docs/adr/0009-strict-csp-and-htmx-2.md
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:", "blob:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env.boolean("SECURE_COOKIES")
DATA_UPLOAD_MAX_MEMORY_SIZE = 12 * 1024 * 1024  # conversation imports take up to 10 MB
UPLOAD_LIMIT = env.integer("UPLOAD_LIMIT_MB", 200, low=1, high=2_000) * 1024 * 1024
UPLOAD_KEPT_DAYS = env.integer("UPLOAD_KEPT_DAYS", 7, low=1, high=365)
# Logs with more scored turns than this are not scored whole by pages (console/services/table_sample.py).
WHOLE_LOG_TURNS = env.integer("WHOLE_LOG_TURNS", 20_000, low=1, high=10_000_000)
FILE_UPLOAD_HANDLERS = [
    "console.middleware.UploadLimit",
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "django.core.files.uploadhandler.TemporaryFileUploadHandler",
]

SIGNALBOX_ENCODER = env.text("SIGNALBOX_ENCODER", "minilm")
if SIGNALBOX_ENCODER != "minilm" and not SIGNALBOX_ENCODER.startswith("openai:"):
    raise ImproperlyConfigured(f"SIGNALBOX_ENCODER={SIGNALBOX_ENCODER!r} is unknown. Use minilm or openai:MODEL[:DIM].")
OPENAI_BASE_URL = env.text("OPENAI_BASE_URL")
OPENAI_API_KEY = env.text("OPENAI_API_KEY")

# Who else than public hosts may be told of events, and whether without TLS (console/providers/webhook.py).
WEBHOOK_NETWORKS = env.networks("WEBHOOK_NETWORKS")
WEBHOOK_HTTP = env.boolean("WEBHOOK_HTTP")

REDIS_URL = env.text("REDIS_URL")
if REDIS_URL and urlsplit(REDIS_URL).scheme not in {"redis", "rediss", "unix"}:
    raise ImproperlyConfigured(f"REDIS_URL={REDIS_URL!r} has an unknown scheme. Use redis://host:port/db.")
_queue = VAR_DIR / "queue"
CELERY_BROKER_URL = REDIS_URL or "filesystem://"
if not REDIS_URL:
    for name in ("messages", "processed", "control"):
        env.folder(_queue / name)
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(_queue / "messages"),
        "data_folder_out": str(_queue / "messages"),
        "processed_folder": str(_queue / "processed"),
        "control_folder": str(_queue / "control"),
        "polling_interval": 0.1,
    }
else:
    # Longer than any task may run (console.tasks), so that a message is not given to a second worker while the first has it.
    CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 3_600, "socket_connect_timeout": 5, "socket_timeout": 30}
RUN_LEASE_S = env.integer("RUN_LEASE_S", 60, low=2, high=3_600)
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
CELERY_BEAT_MAX_LOOP_INTERVAL = 5
CELERY_BEAT_SCHEDULE = {
    "embed-pending": {"task": "console.embed_pending", "schedule": 60.0, "options": {"expires": 55}},
    "heartbeat": {"task": "console.heartbeat", "schedule": 15.0, "options": {"expires": 14}},
    "coordinate": {"task": "console.coordinate", "schedule": 10.0, "options": {"expires": 9}},
    "send-webhooks": {"task": "console.send_webhooks", "schedule": 15.0, "options": {"expires": 14}},
    "watch-alerts": {"task": "console.watch_alerts", "schedule": 900.0, "options": {"expires": 850}},
    "prune-webhooks": {"task": "console.prune_webhooks", "schedule": 3_600.0, "options": {"expires": 3_500}},
    "erase-uploads": {"task": "console.erase_uploads", "schedule": 3_600.0, "options": {"expires": 3_500}},
    "erase-conversations": {
        "task": "console.erase_conversations",
        "schedule": 3_600.0,
        "options": {"expires": 3_500},
    },
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {"httpx2": {"level": "WARNING"}},  # below, it writes whole addresses: a webhook's may hold a key
    "root": {"handlers": ["stderr"], "level": os.environ.get("LOG_LEVEL", "WARNING")},
}
