# The checkout as one image, for every process of a deployment: code server, web server, daemon, Spark's master and workers. What is
# installed is what uv.lock names. Build it with: docker build --tag lakewarden .
FROM python:3.11-slim-bookworm

# Java for Spark; procps for its scripts.
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*

RUN pip install --no-cache-dir uv==0.13.9
WORKDIR /lakewarden
ENV UV_FROZEN=1 UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1 UV_PYTHON=/usr/local/bin/python UV_PYTHON_DOWNLOADS=never

# The libraries before the code: a change of the code installs none of them again.
COPY pyproject.toml uv.lock README.md ./
RUN uv sync --no-default-groups --all-extras --no-install-project \
    && ln -s /lakewarden/.venv/lib/python3.11/site-packages/pyspark /opt/spark

COPY . .
RUN uv sync --no-default-groups --all-extras \
    && python -m compileall -q lakewarden orchestration assets jobs resources

# No process needs to be root. A named volume on one of these directories takes its owner.
RUN useradd --uid 10001 --create-home lakewarden \
    && install --directory --owner lakewarden --group lakewarden /dagster /dagster/storage /warehouse
USER lakewarden
ENV PATH=/lakewarden/.venv/bin:$PATH DAGSTER_HOME=/dagster SPARK_HOME=/opt/spark \
    SPARK_WORKER_DIR=/tmp/spark-work LAKEWARDEN_WAREHOUSE=/warehouse
# Delta's JARs, which Spark would fetch from Maven Central at its first start.
RUN SPARK_LOCAL_HOSTNAME=localhost python -c "from lakewarden.base.settings import load_settings; from lakewarden.spark.session import start_session; \
    start_session(load_settings({}).spark).stop()"
CMD ["lakewarden", "--help"]
