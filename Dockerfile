# The planning session in a container: docker build -t planner . && docker run --rm -p 8501:8501 planner
# Set-up behind a reverse proxy, a folder of your own hardware, and limits: docs/guides/deployment.md

FROM python:3.12-slim AS build
WORKDIR /src
RUN pip install --no-cache-dir build
COPY pyproject.toml README.md NOTICE ./
COPY planner planner
COPY hardware_db hardware_db
COPY model_specs model_specs
COPY examples examples
RUN python -m build --wheel --outdir /wheels

FROM python:3.12-slim
# All addresses of the container: it is published, or not, by whoever runs it. Without the browser's address Streamlit asks
# a service on the network for its own.
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    STREAMLIT_SERVER_ADDRESS=0.0.0.0 \
    STREAMLIT_SERVER_PORT=8501 \
    STREAMLIT_SERVER_FILE_WATCHER_TYPE=none \
    STREAMLIT_BROWSER_SERVER_ADDRESS=localhost \
    HOME=/tmp
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin planner
WORKDIR /app
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /wheels /tmp/wheels
# The catalogue, its translations and the code are bytecode-compiled here: the container's files may be read-only.
RUN pip install --no-cache-dir --constraint /tmp/constraints.txt "$(ls /tmp/wheels/*.whl)[ui,sheet]" \
    && python -m compileall -q "$(python -c 'import planner, os; print(os.path.dirname(planner.__file__))')" \
    && rm -r /tmp/wheels /tmp/constraints.txt
COPY app.py ./
COPY .streamlit .streamlit
# Files of a checkout made under a strict umask are their owner's alone; the server reads them as another user.
RUN chmod -R a+rX /app
USER 10001
EXPOSE 8501
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s --retries=3 CMD ["python", "-c", "import os, urllib.request as u; base = os.environ.get('STREAMLIT_SERVER_BASE_URL_PATH', '').strip('/'); u.urlopen(f\"http://127.0.0.1:{os.environ['STREAMLIT_SERVER_PORT']}/{base + '/' if base else ''}_stcore/health\", timeout=4)"]
CMD ["streamlit", "run", "app.py"]
