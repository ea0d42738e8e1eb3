"""Sends a file to who comes to port 9001, receives one from who comes to 9002, time after time."""

import os, socket, sys, threading

address, down, up = sys.argv[1:4]

def serve(port, talk):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, port), family=family, dualstack_ipv6=address == "::")
    while True:
        with listener.accept()[0] as connection:
            talk(connection)

def send(connection):
    with open(down, "rb") as file:
        connection.sendfile(file)

def receive(connection):
    with open(up + ".part", "wb") as file:
        while data := connection.recv(1 << 20):
            file.write(data)
    os.rename(up + ".part", up)

threading.Thread(target=serve, args=(9001, send), daemon=True).start()
serve(9002, receive)
