// Runs memjs' operations (binary protocol) against the server at the port in the first argument.
const assert = require("node:assert");
const memjs = require("memjs");

async function main() {
  const client = memjs.Client.create(`127.0.0.1:${process.argv[2]}`, { timeout: 10, retries: 0 });
  assert.ok(await client.set("key", "value", { expires: 600 }));
  assert.strictEqual((await client.get("key")).value.toString(), "value");
  assert.strictEqual((await client.get("nosuch")).value, null);
  assert.ok(!(await client.add("key", "x")));
  assert.ok(await client.add("other", "y"));
  assert.ok(await client.replace("other", "z"));
  assert.ok(!(await client.replace("nosuch", "z")));
  assert.ok(await client.append("other", "!"));
  // memjs' prepend sends an append, to memcached as well.
  assert.strictEqual((await client.get("other")).value.toString(), "z!");
  assert.strictEqual((await client.increment("n", 1, { initial: 41 })).value, 41);
  assert.strictEqual((await client.increment("n", 1, {})).value, 42);
  assert.strictEqual((await client.decrement("n", 100, {})).value, 0);
  assert.ok(await client.touch("key", 100));
  const large = Buffer.alloc(900000, "x");
  assert.ok(await client.set("large", large));
  assert.ok((await client.get("large")).value.equals(large));
  assert.ok(await client.delete("key"));
  assert.ok(!(await client.delete("key")));
  const stats = await new Promise((resolve, reject) =>
    client.stats((error, server, figures) => (error ? reject(error) : resolve(figures))),
  );
  assert.ok(Number(stats.curr_items) >= 3);
  await client.flush();
  assert.strictEqual((await client.get("other")).value, null);
  client.close();
  console.log("all checks passed");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
