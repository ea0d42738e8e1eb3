"""Sends so many bytes of digits by kernel TLS 1.2 to port 4433, as tls_peer.py has them, and runs a command when a part of them has been sent.

Options: destination-options puts a header of destination options (IPv6) into each packet; tls13 sends them by TLS 1.3."""

import fcntl, socket, ssl, subprocess, sys, termios, time

address, size, command, *options = sys.argv[1:]
plain = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
if "destination-options" in options:
    # One option that pads: next header, length, PadN of four bytes.
    plain.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, bytes([0, 0, 1, 4, 0, 0, 0, 0]))
plain.settimeout(60)
plain.connect((address, 4433))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
if "tls13" in options:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
else:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
context.options |= ssl.OP_ENABLE_KTLS
with context.wrap_socket(plain) as connection:
    lines = int(size) // 64
    for first in range(0, lines, 1024):
        if first <= lines // 4 < first + 1024:
            subprocess.run(command, shell=True, check=True)
        connection.sendall(b"".join(b"%063d\n" % line for line in range(first, min(first + 1024, lines))))
    connection.shutdown(socket.SHUT_WR)
    # Until all of it has come.
    for _ in range(600):
        if not int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)), sys.byteorder):
            sys.exit()
        time.sleep(0.1)
    sys.exit("it does not come")
