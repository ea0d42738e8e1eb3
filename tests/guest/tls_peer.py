"""Tells the digest of what comes by TLS to port 4433, sends as much to who comes to 4434, or to 4435 and asks, and sends back what comes to 4436,
connection after connection."""

import hashlib, socket, ssl, sys, threading

address, certificate, key, size = sys.argv[1:5]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
# Nothing but digits, so that any of it shows in a capture.
digits = b"".join(b"%063d\n" % line for line in range(int(size) // 64))

def tell(*words):
    # One write for a line: two threads tell.
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()

def serve(port, talk):
    listener = socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    tell("listening", port)
    while True:
        try:
            with listener.accept()[0] as plain, context.wrap_socket(plain, server_side=True) as connection:
                talk(connection)
        except OSError as error:
            tell(error)

def receive(connection):
    digest = hashlib.sha256()
    while data := connection.recv(1 << 16):
        digest.update(data)
    tell(connection.cipher()[0], digest.hexdigest())

def send(connection):
    connection.sendall(digits)
    connection.unwrap()

def answer(connection):
    # Who asks has set up what receives.
    connection.recv(1)
    send(connection)

def echo(connection):
    while data := connection.recv(1 << 16):
        connection.sendall(data)

tell("digest", hashlib.sha256(digits).hexdigest())
for port, talk in (4434, send), (4435, answer), (4436, echo):
    threading.Thread(target=serve, args=(port, talk), daemon=True).start()
serve(4433, receive)
