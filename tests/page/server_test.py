#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `tandem serve` makes of clients that are slow, endless or no clients at all: server_test.py TANDEM, over sockets."""
import http.client
import json
import signal
import socket
import subprocess
import sys
import unittest

TANDEM = sys.argv[1]
HOST = b"Host: 127.0.0.1\r\n"
JSON = b"Content-Type: application/json\r\n"
QUESTION = b'{"model": "lenet5", "system": "dgx1-v100", "devices": [1]}'
MEMORY_KIB = 300_000  # that the server may ever take


class ServerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.process = subprocess.Popen([TANDEM, "serve", "--port", "0", "--quiet"], stdout=subprocess.PIPE, text=True)
        cls.port = int(cls.process.stdout.readline().rsplit(":", 1)[1].strip("/\n"))

    @classmethod
    def tearDownClass(cls):
        with open(f"/proc/{cls.process.pid}/status", encoding="ascii") as status:
            most = int(next(line for line in status if line.startswith("VmHWM")).split()[1])
        cls.process.send_signal(signal.SIGINT)
        code = cls.process.wait(timeout=60)
        cls.process.stdout.close()
        assert code == 0, code
        assert most < MEMORY_KIB, most

    def open(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        self.addCleanup(connection.close)
        return connection

    def said(self, head, body=b"", times=1):
        """Status and error of the response to a request, of which the server may not take all."""
        connection = self.open()
        try:
            connection.sendall(head + b"\r\n")
            for _ in range(times):
                connection.sendall(body)
        except (BrokenPipeError, ConnectionResetError):
            pass
        response = http.client.HTTPResponse(connection)
        try:
            response.begin()
        except (ConnectionResetError, http.client.BadStatusLine):
            return 0, ""
        try:
            text = response.read()
        except http.client.IncompleteRead as cut:
            text = cut.partial
        except ConnectionResetError:
            text = b"{}"
        return response.status, json.loads(text or b"{}").get("error", "")

    def answers(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("POST", "/answer?depth=rate", QUESTION, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        connection.close()
        self.assertEqual(response.status, 200, text)

    def test_methods_and_addresses(self):
        self.assertEqual(self.said(b"PUT /answer HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n", b"{}"), (405, "there are GET and POST"))
        self.assertEqual(self.said(b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + HOST), (414, "the address is too long"))
        self.assertEqual(self.said(b"GET /../../etc/passwd HTTP/1.1\r\n" + HOST)[0], 404)
        self.assertEqual(self.said(b"\0\1\2\r\n"), (400, "this is no request that can be read"))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("HEAD", "/")
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        self.answers()

    def test_responses_are_neither_multiplied_nor_compressed(self):
        ranges = b"Range: bytes=" + b",".join([b"0-"] * 2000) + b"\r\n"
        self.assertEqual(self.said(b"GET / HTTP/1.1\r\n" + HOST + ranges), (400, "responses are given whole: without Range"))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("GET", "/", headers={"Accept-Encoding": "gzip, br"})
        response = connection.getresponse()
        self.assertIsNone(response.headers["Content-Encoding"])
        self.assertIn(b"<!doctype html>", response.read())
        connection.close()

    def test_bodies_have_a_limit_however_they_are_sent(self):
        post = b"POST /answer HTTP/1.1\r\n" + HOST + JSON
        most = (413, "a request has at most 262144 bytes")
        self.assertEqual(self.said(post + b"Content-Length: 300000\r\n", b" " * 300_000), most)
        self.assertEqual(self.said(post + b"Content-Length: -1\r\n", b"{}")[0], 413)
        chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        self.assertEqual(self.said(post + b"Transfer-Encoding: chunked\r\n", b"60000\r\n" + b" " * 0x60000 + b"\r\n0\r\n\r\n"), most)
        self.assertIn(self.said(post + b"Transfer-Encoding: chunked\r\n", chunk, times=600)[0], (0, 413))
        form = b"POST /answer HTTP/1.1\r\n" + HOST + b"Content-Type: multipart/form-data; boundary=x\r\n"
        part = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n--x--\r\n'
        self.assertEqual(self.said(form + b"Content-Length: %d\r\n" % len(part), part)[0], 415)
        self.assertIn(self.said(form + b"Content-Length: 4\r\n", b"junk")[0], (400, 415))
        self.answers()

    def test_slow_clients_leave_room_for_others(self):
        for _ in range(40):
            self.open().sendall(b"GET / HTTP/1.1\r\nX")
        self.answers()

    def test_a_machine_that_takes_too_much_memory_is_refused(self):
        body = json.dumps({**json.loads(QUESTION), "set": ["nodes=10000000"]}).encode()
        status, error = self.said(b"POST /answer HTTP/1.1\r\n" + HOST + JSON + b"Content-Length: %d\r\n" % len(body), body)
        self.assertEqual(status, 400)
        self.assertIn("at most machines of 1000000 devices", error)

    def test_a_port_is_not_shared(self):
        other = subprocess.run([TANDEM, "serve", "--port", str(self.port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        self.assertEqual((other.returncode, other.stdout), (4, ""))
        self.assertIn("another program does", other.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=1)
