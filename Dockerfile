# The command in an image, for processors: docker build -t sottovoce .
#     docker run --rm sottovoce epsilon deid --strategy word --p 0.99 --pi-min 0.01 --tokens 10
#     docker run --rm -v "$PWD:/data" sottovoce deid calls.jsonl -o released.jsonl --strategy typed
# Nothing is sent anywhere at run time; the container needs no network (--network none).

FROM python:3.11-slim AS build
# A compiler for the kernels; it stays in this stage.
RUN apt-get update -qq \
 && apt-get install -qq -y --no-install-recommends gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
RUN python -m venv /opt/sottovoce
ENV PATH=/opt/sottovoce/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /build
COPY constraints.txt ./
# Torch without CUDA, in a layer of its own: it is the largest part and changes least.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --quiet --constraint constraints.txt --index-url "$TORCH_INDEX" torch
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY src ./src
# EXTRAS=[bert,serve] or [all] for more than the core.
ARG EXTRAS=""
RUN pip install --quiet --constraint constraints.txt ".${EXTRAS}"

FROM python:3.11-slim
RUN useradd --create-home --uid 1000 sottovoce && mkdir /data && chown sottovoce /data
COPY --from=build /opt/sottovoce /opt/sottovoce
ENV PATH=/opt/sottovoce/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    FLWR_TELEMETRY_ENABLED=0 \
    RAY_USAGE_STATS_ENABLED=0 \
    HF_HUB_OFFLINE=1
USER sottovoce
WORKDIR /data
ENTRYPOINT ["sottovoce"]
CMD ["--help"]
