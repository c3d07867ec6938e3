// Runs jobs of BullMQ: a queue, a worker, and who waits for their events. Usage: bullmq.mjs PORT

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

// NODE_PATH says where packages are, which only CommonJS reads.
const { Queue, QueueEvents, Worker } = createRequire(import.meta.url)('bullmq');

const PATIENCE_MS = 30_000;
const connection = { host: '127.0.0.1', port: Number(process.argv[2]), maxRetriesPerRequest: null };
const fail = error => {
  console.error(error);
  process.exit(1);
};

const queue = new Queue('jobs', { connection });
const events = new QueueEvents('jobs', { connection });
const work = async job => {
  if (job.name === 'fails') throw new Error('as it should');
  return job.data.a + job.data.b;
};
const worker = new Worker('jobs', work, { connection });
for (const emitter of [queue, events, worker]) emitter.on('error', fail);
await events.waitUntilReady();

const finished = job => job.waitUntilFinished(events, PATIENCE_MS);
assert.equal(await finished(await queue.add('sum', { a: 2, b: 3 })), 5);
assert.equal(await finished(await queue.add('sum', { a: 4, b: 5 }, { delay: 100 })), 9);
await assert.rejects(async () => finished(await queue.add('fails', {}, { attempts: 2 })), /as it should/);
const many = await queue.addBulk(Array.from({ length: 20 }, (_, a) => ({ name: 'sum', data: { a, b: 1 } })));
for (const job of many) assert.equal(await finished(job), job.data.a + 1);
const counts = await queue.getJobCounts('completed', 'failed', 'waiting');
assert.deepEqual(counts, { completed: 22, failed: 1, waiting: 0 });
await Promise.all([worker.close(), events.close(), queue.close()]);
console.log('all checks passed');
