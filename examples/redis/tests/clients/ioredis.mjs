// Drives a server with ioredis and its defaults. Usage: node ioredis.mjs PORT PASSWORD
// `require` finds the package through NODE_PATH; `import` would not.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const Redis = require('ioredis');
const { version } = require('ioredis/package.json');

const [port, password] = [Number(process.argv[2]), process.argv[3]];
const { deepEqual, equal, rejects } = assert;

async function connection() {
  const redis = new Redis({ port, password, connectionName: 'suite' });
  equal(await redis.ping(), 'PONG');
  equal(await redis.echo('hello'), 'hello');
  equal(await redis.client('GETNAME'), 'suite');
  assert((await redis.info()).includes('role:master'));
  deepEqual(await redis.config('GET', 'maxclients'), ['maxclients', '10000']);
  await rejects(redis.call('NOSUCH'), /unknown command 'NOSUCH'/);
  equal(await redis.quit(), 'OK');

  const refused = new Redis({ port, retryStrategy: null, lazyConnect: true });
  refused.on('error', () => {});
  await rejects(refused.connect().then(() => refused.get('key')), /NOAUTH|Connection is closed/);
  refused.disconnect();
}

async function strings(redis) {
  equal(await redis.set('text', 'grün', 'EX', 100), 'OK');
  equal(await redis.ttl('text'), 100);
  equal(await redis.get('text'), 'grün');
  equal(await redis.set('text', 'other', 'NX'), null);
  equal(await redis.append('text', '!'), 6);
  equal(await redis.getdel('text'), 'grün!');
  equal(await redis.mset({ one: 1, two: 2 }), 'OK');
  deepEqual(await redis.mget('one', 'none', 'two'), ['1', null, '2']);
  equal(await redis.incrby('one', 41), 42);
  equal(await redis.incrbyfloat('two', 0.5), '2.5');
  await rejects(redis.incr('two'), /value is not an integer or out of range/);
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, index) => index));
  equal(await redis.set('bytes', bytes), 'OK');
  deepEqual(await redis.getBuffer('bytes'), bytes);
}

async function keys(redis) {
  await redis.mset('a', 1, 'b', 2);
  equal(await redis.exists('a', 'b', 'nosuch'), 2);
  equal(await redis.expire('a', 100), 1);
  equal(await redis.persist('a'), 1);
  equal(await redis.rename('a', 'c'), 'OK');
  equal(await redis.type('c'), 'string');
  deepEqual(await redis.keys('c*'), ['c']);
  equal(await redis.unlink('b', 'c'), 2);
  equal(await redis.randomkey(), null);
}

async function lists(redis) {
  equal(await redis.rpush('list', 'b', 'c'), 2);
  equal(await redis.lpush('list', 'a'), 3);
  deepEqual(await redis.lrange('list', 0, -1), ['a', 'b', 'c']);
  equal(await redis.lpop('list'), 'a');
  deepEqual(await redis.rpop('list', 2), ['c', 'b']);
  await redis.rpush('numbers', 3, 1, 2);
  deepEqual(await redis.sort('numbers', 'DESC'), ['3', '2', '1']);
  await rejects(redis.get('numbers'), /WRONGTYPE/);
}

async function hashes(redis) {
  equal(await redis.hset('hash', { a: 1, b: 2 }), 2);
  deepEqual(await redis.hgetall('hash'), { a: '1', b: '2' });
  deepEqual(await redis.hgetall('nosuch'), {});
  deepEqual(await redis.hmget('hash', 'a', 'nosuch'), ['1', null]);
  equal(await redis.hincrby('hash', 'a', 5), 6);
  equal(await redis.hdel('hash', 'a'), 1);
  equal(await redis.hget('hash', 'b'), '2');
}

async function sets(redis) {
  equal(await redis.sadd('set', 'a', 'b'), 2);
  deepEqual((await redis.smembers('set')).sort(), ['a', 'b']);
  equal(await redis.sismember('set', 'a'), 1);
  equal(await redis.sadd('another', 'b', 'c'), 2);
  deepEqual(await redis.sinter('set', 'another'), ['b']);
  deepEqual((await redis.sunion('set', 'another')).sort(), ['a', 'b', 'c']);
  equal(await redis.srem('set', 'a', 'b'), 2);
}

async function sortedSets(redis) {
  equal(await redis.zadd('zset', 1, 'a', 2.5, 'b'), 2);
  equal(Number(await redis.zscore('zset', 'b')), 2.5);
  deepEqual(await redis.zrange('zset', 0, -1), ['a', 'b']);
  const scored = (await redis.zrange('zset', 0, -1, 'WITHSCORES')).flat().map(String);
  deepEqual(scored, ['a', '1', 'b', '2.5']);
  equal(await redis.zrank('zset', 'b'), 1);
  equal(Number(await redis.zincrby('zset', 2, 'a')), 3);
  deepEqual(await redis.zrangebyscore('zset', '(2.5', '+inf'), ['a']);
  equal(await redis.zrem('zset', 'a', 'b'), 2);
}

async function blocking(redis) {
  await redis.rpush('queue', 'a', 'b');
  deepEqual(await redis.blpop('none', 'queue', 0), ['queue', 'a']);
  equal(await redis.blmove('queue', 'running', 'LEFT', 'RIGHT', 1), 'b');
  equal(await redis.brpop('none', 0.01), null);
  await redis.zadd('zset', 1, 'a');
  deepEqual(await redis.bzpopmin('zset', 0), ['zset', 'a', '1']);

  const worker = redis.duplicate();
  const popped = worker.blpop('queue', 'other', 0);
  const behind = worker.llen('queue');
  while (!(await redis.info('clients')).includes('blocked_clients:1')) {}
  await redis.multi().rpush('queue', 'job').rpush('queue', 'next').exec();
  deepEqual(await popped, ['queue', 'job']);
  equal(await behind, 1);
  equal(await worker.quit(), 'OK');
}

async function pipelines(redis) {
  const pipeline = redis.pipeline();
  for (let index = 0; index < 1000; index += 1) {
    pipeline.set(`scan:${index}`, index).get(`scan:${index}`);
  }
  const replies = await pipeline.exec();
  equal(replies.length, 2000);
  replies.forEach(([error, reply], position) => {
    equal(error, null);
    equal(reply, position % 2 === 0 ? 'OK' : String((position - 1) / 2));
  });

  const found = new Set();
  for await (const batch of redis.scanStream({ match: 'scan:*', count: 50 })) {
    batch.forEach((key) => found.add(key));
  }
  equal(found.size, 1000);

  const [set, failed, got] = await redis.pipeline().set('text', 'x').incr('text').get('text').exec();
  deepEqual(set, [null, 'OK']);
  assert(/not an integer/.test(failed[0].message), failed[0]);
  deepEqual(got, [null, 'x']);
}

async function transactions(redis) {
  const done = await redis.multi().set('counter', 1).incr('counter').get('counter').exec();
  deepEqual(done, [[null, 'OK'], [null, 2], [null, '2']]);
  await redis.watch('counter');
  await redis.incr('counter');
  equal(await redis.multi().set('counter', 0).exec(), null);
  equal(await redis.get('counter'), '3');
  await redis.multi({ pipeline: false });
  equal(await redis.set('counter', 7), 'QUEUED');
  equal(await redis.discard(), 'OK');
}

async function scripts(redis) {
  deepEqual(await redis.eval('return {KEYS[1], ARGV[1], 7, false}', 1, 'k', 'v'), ['k', 'v', 7, null]);
  redis.defineCommand('add', { numberOfKeys: 1, lua: "return redis.call('incrby', KEYS[1], ARGV[1])" });
  equal(await redis.add('counter', 5), 5);
  equal(await redis.script('FLUSH'), 'OK');
  equal(await redis.add('counter', 5), 10);
  const pipelined = await redis.pipeline().add('counter', 1).get('counter').exec();
  deepEqual(pipelined, [[null, 11], [null, '11']]);
  await rejects(redis.eval("return redis.call('nosuch')", 0), /Unknown Redis command called from script/);
}

async function messages(redis) {
  const subscriber = new Redis({ port, password });
  const received = [];
  let wake = () => {};
  const note = (...message) => {
    received.push(message);
    wake();
  };
  subscriber.on('message', note);
  subscriber.on('pmessage', note);
  const arrived = async (count) => {
    while (received.length < count) await new Promise((resolve) => (wake = resolve));
    return received.splice(0, count);
  };
  equal(await subscriber.subscribe('news', 'more'), 2);
  equal(await subscriber.psubscribe('n*'), 3);
  equal(await redis.publish('news', 'hello'), 2);
  deepEqual(await arrived(2), [['news', 'hello'], ['n*', 'news', 'hello']]);
  deepEqual(await redis.multi().publish('more', 'a').publish('more', 'b').exec(), [[null, 1], [null, 1]]);
  deepEqual(await arrived(2), [['more', 'a'], ['more', 'b']]);
  equal(await subscriber.unsubscribe('news', 'more'), 1);
  equal(await subscriber.punsubscribe(), 0);
  equal(await subscriber.get('key'), null);
  equal(await redis.publish('news', 'nobody'), 0);
  equal(await subscriber.quit(), 'OK');
}

async function autoPipelining() {
  const redis = new Redis({ port, password, enableAutoPipelining: true });
  const numbers = Array.from({ length: 500 }, (_, index) => index);
  const sets = await Promise.all(numbers.map((number) => redis.set(`auto:${number}`, number)));
  deepEqual(new Set(sets), new Set(['OK']));
  const values = await Promise.all(numbers.map((number) => redis.get(`auto:${number}`)));
  deepEqual(values, numbers.map(String));
  equal(await redis.quit(), 'OK');
}

async function databases() {
  const [first, second] = [0, 1].map((db) => new Redis({ port, password, db }));
  const other = new Redis({ port, password, db: 1 });
  const received = new Promise((resolve) => other.blpop('queue', 30).then(resolve));
  equal(await first.set('where', 'first'), 'OK');
  equal(await second.get('where'), null);
  equal(await second.set('where', 'second'), 'OK');
  equal(await first.get('where'), 'first');
  equal(await first.rpush('queue', 'not for them'), 1);
  equal(await second.rpush('queue', 'job'), 1);
  deepEqual(await received, ['queue', 'job']);
  deepEqual(await second.multi().get('where').select(0).get('where').select(1).exec(), [
    [null, 'second'],
    [null, 'OK'],
    [null, 'first'],
    [null, 'OK'],
  ]);
  equal(await first.swapdb(0, 1), 'OK');
  equal(await first.get('where'), 'second');
  for (const client of [first, second, other]) equal(await client.quit(), 'OK');
}

await connection();
const redis = new Redis({ port, password });
const suites = [strings, keys, lists, hashes, sets, sortedSets, blocking, pipelines, transactions, scripts, messages];
for (const suite of suites) {
  equal(await redis.flushall(), 'OK');
  await suite(redis);
}
await autoPipelining();
await databases();
equal(await redis.flushall(), 'OK');
equal(await redis.dbsize(), 0);
await redis.quit();
console.log(`ioredis ${version}: all checks passed`);
