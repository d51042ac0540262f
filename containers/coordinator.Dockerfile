# The Muster coordinator.
#
#   ./dev build && podman build -f containers/coordinator.Dockerfile --build-arg BASE=debian:12-slim -t muster-coordinator .
#
# BASE needs libssl3 and the C library 2.35 or later.
ARG BASE
FROM ${BASE}
COPY build/release/bin/coordinator /usr/bin/coordinator
COPY containers/coordinator-entry /usr/libexec/muster/coordinator-entry
# Jobs, their output, and the trust of the cluster: keep it in a volume, which is the cluster.
ENV STATE_DIRECTORY=/var/lib/muster/coordinator
EXPOSE 7443
# MUSTER_HOST: the name or address under which nodes reach it (default: the host name).
ENTRYPOINT ["/usr/libexec/muster/coordinator-entry"]
CMD []
