"""Tells the digest of what comes by TLS to port 4433, and sends as much to who comes to 4434, connection after connection."""

import hashlib, socket, ssl, sys, threading

address, certificate, key, size = sys.argv[1:5]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
# Nothing but digits, so that any of it shows in a capture.
digits = b"".join(b"%063d\n" % line for line in range(int(size) // 64))

def serve(port, talk):
    listener = socket.create_server((address, port))
    print("listening", port, flush=True)
    while True:
        try:
            with listener.accept()[0] as plain, context.wrap_socket(plain, server_side=True) as connection:
                talk(connection)
        except OSError as error:
            print(error, flush=True)

def receive(connection):
    digest = hashlib.sha256()
    while data := connection.recv(1 << 16):
        digest.update(data)
    print(connection.cipher()[0], digest.hexdigest(), flush=True)

def send(connection):
    connection.sendall(digits)
    connection.unwrap()

print("digest", hashlib.sha256(digits).hexdigest(), flush=True)
threading.Thread(target=serve, args=(4434, send), daemon=True).start()
serve(4433, receive)
