"""Asks the process of `tests.helpers.prepared` for a command, and ends as that ended.

    python -I -S tests/helpers/prepared_client.py ADDRESS -m tomserve ARGUMENTS
    python -I -S tests/helpers/prepared_client.py ADDRESS -c PROGRAM

It hands over its arguments, environment, folder and standard streams, and imports nothing that takes time.
"""

import _socket
import array
import marshal
import os
import struct
import sys

server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect(sys.argv[1])
told = marshal.dumps((sys.argv[2:], dict(os.environ), os.getcwd()))
streams = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
server.sendmsg([struct.pack("!I", len(told))], streams)
server.sendall(told)
status = server.recv(4)
if len(status) != 4:
    sys.exit("the process that runs commands for tests has ended")
sys.exit(struct.unpack("!i", status)[0])
