from datetime import timedelta

from google.protobuf.message import Message

class Duration(Message):
    seconds: int
    nanos: int
    def FromTimedelta(self, td: timedelta) -> None: ...
    def ToTimedelta(self) -> timedelta: ...
