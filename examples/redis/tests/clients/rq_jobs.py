"""Runs jobs of rq: a queue, a worker in a process of its own for each job, and their results. Usage: rq_jobs.py PORT"""

import logging
import sys

import redis
import rq

# A worker tells of jobs that fail.
logging.disable()
client = redis.Redis(port=int(sys.argv[1]))
queue = rq.Queue("jobs", connection=client)
added = queue.enqueue("operator.add", 2, 3)
# It waits for the other one.
behind = queue.enqueue("operator.mul", 4, 5, depends_on=added)
failing = queue.enqueue("operator.truediv", 1, 0)
many = queue.enqueue_many([rq.Queue.prepare_data("operator.neg", (number,)) for number in range(20)])

worker = rq.Worker([queue], connection=client)
assert worker.work(burst=True)

for job in [added, behind, failing, *many]:
    job.refresh()
assert (added.get_status(), added.return_value()) == ("finished", 5)
assert (behind.get_status(), behind.return_value()) == ("finished", 20)
assert [job.return_value() for job in many] == [-number for number in range(20)]
assert failing.get_status() == "failed"
assert "ZeroDivisionError" in failing.latest_result().exc_string
assert len(added.results()) == 1
assert queue.is_empty() and len(queue.failed_job_registry) == 1 and len(queue.finished_job_registry) == 22
print("all checks passed")
