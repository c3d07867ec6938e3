"""Runs tasks of celery, whose broker and result backend the server is: a worker in a process of its own, results,
retries, a chord. Usage: celery_tasks.py PORT"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from celery import Celery, chord, group

# The worker imports this file.
PORT = sys.argv[1] if __name__ == "__main__" else os.environ["TASKS_PORT"]
URL = f"redis://127.0.0.1:{PORT}/0"
app = Celery("celery_tasks", broker=URL, backend=URL)
app.conf.broker_connection_retry_on_startup = True


@app.task
def add(left, right):
    return left + right


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=3)
def second_time(self):
    if self.request.retries == 0:
        raise self.retry(countdown=0)
    return self.request.retries


@app.task
def fail():
    raise ValueError("on purpose")


def main():
    arguments = ["-A", "celery_tasks", "worker", "--pool", "solo", "--loglevel", "ERROR", "--without-mingle"]
    log = tempfile.TemporaryFile("w+")
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", *arguments],
        stdout=log,
        stderr=log,
        cwd=Path(__file__).parent,
        env={**os.environ, "TASKS_PORT": PORT, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    try:
        assert add.delay(2, 3).get(timeout=60) == 5
        results = group(add.s(number, 1) for number in range(20)).apply_async()
        assert results.get(timeout=60) == [number + 1 for number in range(20)]
        assert chord((add.s(number, 0) for number in range(10)), total.s())().get(timeout=60) == 45
        assert second_time.delay().get(timeout=60) == 1
        try:
            fail.delay().get(timeout=60)
        except ValueError as error:
            assert str(error) == "on purpose"
        else:
            raise AssertionError("the task did not fail")
    except BaseException:
        log.seek(0)
        print(log.read())
        raise
    finally:
        worker.terminate()
        worker.wait(timeout=60)
    print("all checks passed")


if __name__ == "__main__":
    main()
