"""The console's settings on a throw-away folder: no test touches what `make up` keeps in ``var/``.

The database is a SQLite file of this process, or a database of its own on the server of ``DATABASE_URL``; the broker is a
folder of this process (tests/engines brings a Redis). Each pytest process, each of xdist's too, has its own of all of them.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_folder = tempfile.mkdtemp(prefix="signalbox-tests-")
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
os.environ["SIGNALBOX_VAR_DIR"] = _folder
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
for _name in (
    "DEBUG",
    "PORT",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "SIGNALBOX_ENCODER",
    "SECURE_COOKIES",
    "ALLOWED_HOSTS",
):
    os.environ.pop(_name, None)  # what a developer has set for `make up` must not decide a test
os.environ["SECRET_KEY"] = "tests only: not a secret, and long enough"

from console.settings import *  # noqa: E402, F403
from console.settings import DATABASES  # noqa: E402

TEST_FOLDER = Path(_folder)
(TEST_FOLDER / "static").mkdir(exist_ok=True)  # WhiteNoise warns of a missing one
_database = DATABASES["default"]
# A file, never memory: an in-memory database hides lost updates and lock time-outs.
_database["TEST"] = {
    "NAME": str(TEST_FOLDER / "test.sqlite3")
    if "sqlite3" in str(_database["ENGINE"])
    else f"test_signalbox_{os.getpid()}"  # several runs may share one server
}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # signing in is not what the tests spend time on
ALLOWED_HOSTS = ["testserver", "127.0.0.1", "localhost"]
