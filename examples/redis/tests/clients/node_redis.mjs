// Drives a server with node-redis and its defaults, and with RESP 2. Usage: node node_redis.mjs PORT PASSWORD
// `require` finds the package through NODE_PATH; `import` would not.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const { WatchError, createClient, createClientPool, defineScript } = require('redis');
const { version } = require('redis/package.json');

const [port, password] = [Number(process.argv[2]), process.argv[3]];
const { equal, rejects } = assert;
// Replies have no prototype, and objects of the tests do.
const deepEqual = (got, wanted) => assert.deepEqual(JSON.parse(JSON.stringify(got)), wanted);

const add = defineScript({
  SCRIPT: "return redis.call('incrby', KEYS[1], ARGV[1])",
  NUMBER_OF_KEYS: 1,
  parseCommand(parser, key, number) {
    parser.pushKey(key);
    parser.push(number.toString());
  },
  transformReply: (reply) => reply,
});

async function connected(options) {
  const redis = createClient({ socket: { port }, password, name: 'suite', scripts: { add }, ...options });
  redis.on('error', (error) => assert.fail(error));
  return redis.connect();
}

async function connection(redis) {
  equal(await redis.ping(), 'PONG');
  equal(await redis.clientGetName(), 'suite');
  await rejects(redis.sendCommand(['NOSUCH']), /unknown command 'NOSUCH'/);
  const refused = createClient({ socket: { port, reconnectStrategy: false } });
  refused.on('error', () => {});
  await rejects(refused.connect().then(() => refused.get('key')), /NOAUTH/);
  refused.destroy();
}

async function values(redis) {
  equal(await redis.set('text', 'grün', { expiration: { type: 'EX', value: 100 } }), 'OK');
  equal(await redis.ttl('text'), 100);
  equal(await redis.get('text'), 'grün');
  equal(await redis.set('text', 'other', { condition: 'NX' }), null);
  equal(await redis.mSet({ one: '1', two: '2' }), 'OK');
  deepEqual(await redis.mGet(['one', 'none', 'two']), ['1', null, '2']);
  equal(await redis.incrBy('one', 41), 42);
  equal(await redis.hSet('hash', { a: 1, b: 2 }), 2);
  deepEqual(await redis.hGetAll('hash'), { a: '1', b: '2' });
  equal(await redis.sAdd('set', ['a', 'b']), 2);
  deepEqual((await redis.sMembers('set')).sort(), ['a', 'b']);
  equal(await redis.zAdd('zset', [{ score: 1, value: 'a' }, { score: 2.5, value: 'b' }]), 2);
  deepEqual(await redis.zRangeWithScores('zset', 0, -1), [
    { value: 'a', score: 1 },
    { value: 'b', score: 2.5 },
  ]);
  await rejects(redis.lPush('text', 'x'), /WRONGTYPE/);
}

async function pipelines(redis) {
  const numbers = Array.from({ length: 1000 }, (_, index) => index);
  await Promise.all(numbers.map((number) => redis.set(`scan:${number}`, number)));
  deepEqual(await Promise.all(numbers.map((number) => redis.get(`scan:${number}`))), numbers.map(String));
  const found = new Set();
  for await (const batch of redis.scanIterator({ MATCH: 'scan:*', COUNT: 50 })) {
    batch.forEach((key) => found.add(key));
  }
  equal(found.size, 1000);
}

async function transactions(redis) {
  deepEqual(await redis.multi().set('counter', 1).incr('counter').get('counter').exec(), ['OK', 2, '2']);
  await redis.watch('counter');
  await redis.incr('counter');
  await rejects(redis.multi().set('counter', 0).exec(), WatchError);
  equal(await redis.get('counter'), '3');
}

async function scripts(redis) {
  equal(await redis.add('counter', 5), 5);
  equal(await redis.scriptFlush(), 'OK');
  equal(await redis.add('counter', 5), 10);
  deepEqual(await redis.multi().add('counter', 1).get('counter').exec(), [11, '11']);
}

async function blocking(redis) {
  const worker = await redis.duplicate().connect();
  const popped = worker.blPop('queue', 0);
  await redis.rPush('queue', 'job');
  deepEqual(await popped, { key: 'queue', element: 'job' });
  await worker.close();
}

async function messages(redis) {
  const subscriber = await redis.duplicate().connect();
  const received = [];
  let wake = () => {};
  const note = (message, channel) => {
    received.push([channel, message]);
    wake();
  };
  await subscriber.subscribe('news', note);
  await subscriber.pSubscribe('m*', note);
  equal(await redis.publish('news', 'hello'), 1);
  equal(await redis.publish('more', 'words'), 1);
  while (received.length < 2) await new Promise((resolve) => (wake = resolve));
  deepEqual(received, [['news', 'hello'], ['more', 'words']]);
  await subscriber.unsubscribe('news');
  await subscriber.pUnsubscribe();
  equal(await redis.publish('news', 'nobody'), 0);
  await subscriber.close();
}

async function streams(redis) {
  const id = await redis.xAdd('stream', '*', { field: 'value' });
  equal(await redis.xGroupCreate('stream', 'group', '0'), 'OK');
  const [{ name, messages: entries }] = await redis.xReadGroup('group', 'worker', { key: 'stream', id: '>' });
  equal(name, 'stream');
  deepEqual(entries.map(({ id, message }) => [id, message]), [[id, { field: 'value' }]]);
  equal(await redis.xAck('stream', 'group', id), 1);
}

async function pool() {
  const redis = createClientPool({ socket: { port }, password }, { maximum: 8 });
  await redis.connect();
  await Promise.all(Array.from({ length: 200 }, () => redis.incr('pooled')));
  equal(await redis.get('pooled'), '200');
  await redis.close();
}

const suites = [connection, values, pipelines, transactions, scripts, blocking, messages, streams];
for (const options of [{}, { RESP: 2 }]) {
  const redis = await connected(options);
  for (const suite of suites) {
    equal(await redis.flushAll(), 'OK');
    await suite(redis);
  }
  await redis.close();
}
await pool();
console.log(`node-redis ${version}: all checks passed`);
