# The Muster agent on an image for training, for nodes whose Gaudi cards talk to each other by their own network ports.
# There is no sshd in it and no key: the agent is what the container runs, so its ranks have the image's ENV.
#
#   ./dev build && podman build -f containers/agent.gaudinic.Dockerfile --build-arg BASE=IMAGE -t muster-agent .
#
# BASE: the image that you train with, for example Habana's PyTorch image (Ubuntu 22.04) with optimum-habana and DeepSpeed
# installed. It needs libssl3 and the C library 2.35 or later.
ARG BASE
FROM ${BASE}
COPY build/release/bin/agent /usr/bin/agent
COPY build/release/bin/muster-shim /usr/libexec/muster/muster-shim
# State of the node: its certificate, and what its jobs have written. Keep it in a volume.
ENV STATE_DIRECTORY=/var/lib/muster/agent
# The user of a container is who trains in it.
ENTRYPOINT ["/usr/bin/agent", "run", "--allow-root"]
# Behind the entry point: --join HOST:PORT --token-file FILE makes the container a node when it starts for the first time.
CMD []
