# The Muster agent on an image for training, for nodes whose cards talk to each other over EFA (AWS DL1).
# As agent.gaudinic.Dockerfile, and what HCCL needs to find EFA.
#
#   ./dev build && podman build -f containers/agent.efa.Dockerfile --build-arg BASE=IMAGE -t muster-agent-efa .
#
# BASE: the image that you train with, with EFA's libraries and Habana's wrapper for libfabric (hccl_ofi_wrapper).
ARG BASE
FROM ${BASE}
COPY build/release/bin/agent /usr/bin/agent
COPY build/release/bin/muster-shim /usr/libexec/muster/muster-shim
ENV STATE_DIRECTORY=/var/lib/muster/agent
# Where the wrapper is in BASE.
ARG OFI_WRAPPER=/root/hccl_ofi_wrapper
# In front of what BASE says, not in place of it: ranks need Habana's libraries too.
ENV HCCL_OVER_OFI=1 \
    FI_EFA_USE_DEVICE_RDMA=1 \
    RDMAV_FORK_SAFE=1 \
    LD_LIBRARY_PATH=${OFI_WRAPPER}:/opt/amazon/openmpi/lib:/opt/amazon/efa/lib:/usr/lib/habanalabs:${LD_LIBRARY_PATH}
ENTRYPOINT ["/usr/bin/agent", "run", "--allow-root"]
CMD []
