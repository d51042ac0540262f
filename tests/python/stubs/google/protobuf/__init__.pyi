# As much of protobuf's types as the package uses: Debian 12 has none.
__version__: str
