#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many questions `tandem serve` answers in a second: questions_a_second.py TANDEM [QUESTIONS] [CLIENTS].

Each asks for the rate of a model on a machine at another bandwidth, batch or number of devices, of kinds whose Programs
were compiled before. Clients are processes on the same machine, each with one connection.
"""
import http.client
import itertools
import json
import multiprocessing
import signal
import subprocess
import sys
import time

TANDEM = sys.argv[1]
QUESTIONS = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
CLIENTS = int(sys.argv[3]) if len(sys.argv) > 3 else 2
HEAD = {"Content-Type": "application/json"}


def questions(model):
    kinds = itertools.product((16, 32, 64), (1, 2, 4, 8), range(10, 30))
    for batch, devices, bandwidth in itertools.cycle(kinds):
        yield json.dumps({"model": model, "system": "dgx1-v100", "scheme": "pytorch-ddp", "batch": batch, "devices": [devices],
                          "set": [f"links.nvlink.bandwidth={bandwidth}GB/s"]})


def ask(port, model, count, times):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for body in itertools.islice(questions(model), count):
        start = time.monotonic()
        connection.request("POST", "/answer?depth=rate", body, HEAD)
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            sys.exit(f"status {response.status}")
        times.append(time.monotonic() - start)


def client(port, model, count, out):
    times = []
    ask(port, model, count, times)
    out.put(times)


for name in ("lenet5", "resnet50"):
    server = subprocess.Popen([TANDEM, "serve", "--port", "0", "--quiet"], stdout=subprocess.PIPE, text=True)
    port = int(server.stdout.readline().rsplit(":", 1)[1].strip("/\n"))
    ask(port, name, 240, [])  # compiles what is asked
    queue = multiprocessing.Queue()
    clients = [multiprocessing.Process(target=client, args=(port, name, QUESTIONS // CLIENTS, queue)) for _ in range(CLIENTS)]
    start = time.monotonic()
    for c in clients:
        c.start()
    all_times = sorted(t for _ in clients for t in queue.get())
    took = time.monotonic() - start
    for c in clients:
        c.join()
    server.send_signal(signal.SIGINT)
    server.wait()
    print(f"{name}: {len(all_times)} questions in {took:.2f} s, {len(all_times) / took:.0f} a second; "
          f"median {1e3 * all_times[len(all_times) // 2]:.2f} ms, 99 of 100 within {1e3 * all_times[len(all_times) * 99 // 100]:.2f} ms")
