# One image for web, worker and beat; the command decides which it is.
FROM python:3.12-slim AS signalbox
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    SIGNALBOX_VAR_DIR=/srv/var SIGNALBOX_MINILM_DIR=/srv/minilm
WORKDIR /srv/signalbox
COPY requirements.lock ./
RUN pip install --no-cache-dir --no-deps --require-hashes -r requirements.lock
COPY sq_core/ sq_core/
RUN python -m sq_core.encoders.minilm_weights /srv/minilm
COPY manage.py ./
COPY console/ console/
COPY templates/ templates/
COPY static/ static/
# The console runs as nobody's superuser, and its folders are its own. The graph of the encoder is written here, once.
RUN useradd --system --home-dir /srv/var --create-home signalbox && chown -R signalbox /srv/minilm
USER signalbox
EXPOSE 8000
CMD ["python", "-m", "granian", "--interface", "wsgi", "--host", "0.0.0.0", "--port", "8000", "--no-ws", \
     "--workers", "2", "--blocking-threads", "4", "--workers-kill-timeout", "5", "console.wsgi:application"]
