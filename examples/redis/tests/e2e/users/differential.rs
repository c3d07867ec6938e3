//! The same users on psp-redis and on redis-server: both allow and deny the same, in the same words.

use crate::common::{Connection, Options, Reply, Server, TOPOLOGIES, encode_line};

/// The number of the client, and what it sends.
type Step = (usize, &'static str);

/// Client 0 administers, clients 1 and 2 are who they say. Client 2 speaks RESP3.
const TRANSCRIPT: &[Step] = &[
    (2, "HELLO 3"),
    // Passwords
    (0, "ACL WHOAMI"),
    (0, "ACL SETUSER newuser >passwd1"),
    (1, "AUTH newuser passwd1"),
    (0, "ACL SETUSER newuser on +acl"),
    (1, "AUTH newuser passwd1"),
    (1, "ACL WHOAMI"),
    (0, "ACL SETUSER newuser >passwd2"),
    (1, "AUTH newuser passwd2"),
    (1, "AUTH newuser passwd3"),
    (0, "ACL SETUSER newuser <passwd1"),
    (1, "AUTH newuser passwd1"),
    (0, "ACL SETUSER newuser <passwd1"),
    (0, "ACL SETUSER newuser #34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e6"),
    (1, "AUTH newuser passwd4"),
    (0, "ACL SETUSER newuser #34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e"),
    (0, "ACL SETUSER newuser #34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4eq"),
    (0, "ACL GETUSER newuser"),
    (0, "ACL SETUSER newuser !34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e6"),
    (0, "ACL GETUSER newuser"),
    (1, "SET foo bar"),
    (0, "ACL SETUSER newuser +set"),
    (1, "SET foo bar"),
    (0, "ACL SETUSER newuser allcommands ~foo:* ~bar:*"),
    (1, "SET foo:1 a"),
    (1, "SET bar:2 b"),
    (1, "SET zap:3 c"),
    (1, "MSET foo:1 a zap:3 b"),
    (0, "ACL SETUSER newuser allkeys nopass"),
    (1, "AUTH newuser zipzapblabla"),
    // Commands
    (0, "ACL SETUSER newuser -ping"),
    (1, "INCR mycounter"),
    (1, "PING"),
    (0, "ACL SETUSER newuser -@all +@set +acl"),
    (1, "SADD myset a b c"),
    (0, "ACL SETUSER newuser +@all -@string"),
    (1, "SADD myset a b c"),
    (1, "SET foo bar"),
    (0, "ACL SETUSER newuser allcommands"),
    (0, "ACL SETUSER newuser +@all -client"),
    (0, "ACL SETUSER newuser +client|id +client|setname"),
    (0, "ACL GETUSER newuser"),
    (1, "CLIENT SETNAME foo"),
    (1, "CLIENT KILL type master"),
    (1, "CLIENT NOSUCH"),
    (0, "ACL SETUSER newuser +@all -client|kill"),
    (0, "ACL GETUSER newuser"),
    (1, "CLIENT KILL type master"),
    (0, "ACL SETUSER newuser -@all +acl +config -config|set"),
    (0, "ACL GETUSER newuser"),
    (1, "CONFIG GET maxclients"),
    (1, "CONFIG SET maxclients 100"),
    (0, "ACL SETUSER newuser +config|get|appendonly"),
    (0, "ACL SETUSER newuser +config|asdf"),
    (0, "ACL SETUSER newuser -config|asdf"),
    (0, "ACL SETUSER newuser +get|key1|key2"),
    (0, "ACL SETUSER newuser -get|key1|key2"),
    (0, "ACL SETUSER newuser +debug|"),
    (0, "ACL SETUSER newuser +nosuch"),
    (0, "ACL SETUSER newuser +@nosuch"),
    (0, "ACL SETUSER newuser -@all +acl +@stream"),
    (1, "XADD key 1-1 field value"),
    (1, "XINFO GROUPS key"),
    (0, "ACL SETUSER newuser -@all +acl +select|0"),
    (0, "ACL GETUSER newuser"),
    (1, "SELECT 0"),
    (1, "SELECT 1"),
    (0, "ACL SETUSER newuser reset +@all ~* -debug +debug|digest"),
    (0, "ACL GETUSER newuser"),
    (0, "ACL SETUSER newuser reset -@all +acl +debug|digest +debug|segfault"),
    (0, "ACL GETUSER newuser"),
    (0, "ACL SETUSER newuser -debug"),
    (0, "ACL GETUSER newuser"),
    (0, "ACL SETUSER bob +memory|doctor -shutdown +replicaof"),
    (0, "ACL GETUSER bob"),
    (0, "ACL SETUSER bob +@all -memory|doctor"),
    (0, "ACL GETUSER bob"),
    (0, "ACL SETUSER bob +@all -memory -@dangerous"),
    (0, "ACL GETUSER bob"),
    (0, "ACL SETUSER bob reset on >b"),
    (0, "ACL LIST"),
    (0, "ACL USERS"),
    (0, "ACL GETUSER nobody"),
    (2, "ACL GETUSER bob"),
    // Channels
    (0, "ACL SETUSER psuser on >pspass +acl +client +@pubsub +multi +discard +exec"),
    (1, "AUTH psuser pspass"),
    (1, "PUBLISH foo bar"),
    (1, "SPUBLISH foo bar"),
    (1, "SUBSCRIBE foo"),
    (1, "SSUBSCRIBE foo"),
    (1, "PSUBSCRIBE foo"),
    (0, "ACL SETUSER psuser resetchannels &foo:1 &bar:*"),
    (1, "PUBLISH foo:1 somemessage"),
    (1, "PUBLISH bar:2 anothermessage"),
    (1, "PUBLISH zap:3 nosuchmessage"),
    (1, "SPUBLISH bar:2 anothermessage"),
    (1, "SPUBLISH zap:3 nosuchmessage"),
    (1, "MULTI"),
    (1, "PUBLISH notexits helloworld"),
    (1, "DISCARD"),
    (1, "MULTI"),
    (1, "SUBSCRIBE notexits foo:1"),
    (1, "DISCARD"),
    (1, "MULTI"),
    (1, "PSUBSCRIBE notexits:* bar:*"),
    (1, "EXEC"),
    (1, "PSUBSCRIBE bar:baz"),
    (1, "UNSUBSCRIBE other"),
    (0, "ACL SETUSER psuser &* &foo"),
    (0, "ACL SETUSER hpuser on nopass resetchannels &foo +@all"),
    (0, "ACL LIST"),
    (0, "ACL DELUSER hpuser nobody"),
    (0, "ACL DELUSER default"),
    // Transactions and scripts
    (0, "ACL LOG RESET"),
    (0, "ACL SETUSER antirez >foo on +set ~object:1234 +eval +eval_ro +multi +exec +publish"),
    (1, "AUTH antirez foo"),
    (1, "GET foo"),
    (1, "GET foo"),
    (0, "ACL LOG"),
    (1, "SET somekeynotallowed 1234"),
    (1, "PUBLISH somechannelnotallowed nullmsg"),
    (1, "SCRIPT HELP"),
    (1, "MULTI"),
    (1, "INCR foo"),
    (1, "EXEC"),
    (1, "EVAL return(redis.call('incr','foo')) 0"),
    (1, "EVAL return(redis.pcall('incr','foo')) 0"),
    (1, "EVAL return(redis.pcall('set','foo','1')) 0"),
    (1, "EVAL return(redis.pcall('publish','foo','1')) 0"),
    (1, "EVAL return(redis.call('set',KEYS[1],'1')) 1 object:1234"),
    (1, "EVAL return(redis.call('set',KEYS[1],'1')) 1 other"),
    (1, "EVAL return(redis.acl_check_cmd('set','foo','1')) 0"),
    (1, "EVAL return(redis.acl_check_cmd('set','object:1234','1')) 0"),
    (1, "EVAL return(redis.acl_check_cmd('nosuch')) 0"),
    (1, "EVAL return(redis.acl_check_cmd()) 0"),
    (1, "AUTH antirez wrong"),
    (1, "HELLO 2 AUTH antirez wrong"),
    (0, "ACL LOG 20"),
    (0, "ACL LOG 2"),
    (0, "ACL LOG 0"),
    (0, "ACL LOG -5"),
    (0, "ACL LOG x"),
    (0, "ACL LOG 1 2"),
    (0, "CONFIG SET acllog-max-len 3"),
    (1, "SET obj:1 x"),
    (1, "SET obj:2 x"),
    (0, "ACL LOG 20"),
    (2, "ACL LOG 1"),
    (0, "ACL SETUSER antirez +incr"),
    (1, "MULTI"),
    (1, "INCR object:1234"),
    (0, "ACL SETUSER antirez -incr"),
    (1, "EXEC"),
    (1, "MULTI"),
    (1, "SET object:1234 x"),
    (0, "ACL SETUSER antirez resetkeys"),
    (1, "EXEC"),
    (0, "ACL LOG RESET"),
    // Selectors
    (0, "ACL SETUSER sel on -@all resetkeys nopass"),
    (1, "AUTH sel x"),
    (1, "PING"),
    (0, "ACL SETUSER sel (+@write ~write::*) (+@read ~read::*)"),
    (1, "PING"),
    (1, "SET write::foo bar"),
    (1, "GET read::foo"),
    (1, "GET write::foo"),
    (1, "SET read::foo bar"),
    (0, "ACL SETUSER sel reset ()"),
    (0, "ACL GETUSER sel"),
    (0, "ACL SETUSER sel clearselectors (~added-selector)"),
    (0, "ACL GETUSER sel"),
    (0, "ACL SETUSER bad on (this-is-invalid)"),
    (0, "ACL SETUSER bad on (&* &fail)"),
    (0, "ACL GETUSER bad"),
    (0, "ACL SETUSER sel (~key5 +get ) ( ~key6 +get ) ( ~key7 +get) (~key8 +get)"),
    (0, "ACL GETUSER sel"),
    (0, "ACL SETUSER bad ("),
    (0, "ACL SETUSER bad )"),
    (0, "ACL SETUSER bad (+get"),
    (0, "ACL SETUSER log on nopass +mget ~key (+mget ~key ~otherkey)"),
    (1, "AUTH log x"),
    (1, "GET key"),
    (1, "MGET otherkey someotherkey"),
    (1, "MGET key otherkey someotherkey"),
    (0, "ACL LOG"),
    (0, "ACL SETUSER info -@all +get resetchannels &channel1 %R~foo1 %W~bar1 ~baz1"),
    (0, "ACL SETUSER info (-@all +set resetchannels &channel2 %R~foo2 %W~bar2 ~baz2)"),
    (0, "ACL GETUSER info"),
    (2, "ACL GETUSER info"),
    (0, "ACL LIST"),
    (0, "ACL SETUSER rw %R~foo %W~foo %RW~bar"),
    (0, "ACL GETUSER rw"),
    (0, "ACL SETUSER rw %~foo"),
    (0, "ACL SETUSER rw %X~foo"),
    (0, "ACL SETUSER rw ~* ~foo"),
    (0, "ACL SETUSER rw"),
    (0, "ACL GETUSER rw"),
    // Keys that are read or written
    (0, "ACL SETUSER rights on nopass %R~read* %W~write* %RW~rw* +@all"),
    (1, "AUTH rights x"),
    (1, "SET write bar"),
    (1, "SET write get"),
    (1, "SET write bar get"),
    (1, "SET write bar ex get"),
    (1, "GET write"),
    (1, "GETSET write x"),
    (1, "COPY write read"),
    (1, "COPY read write2"),
    (1, "BITFIELD read get u4 0"),
    (1, "BITFIELD write get u4 0"),
    (1, "BITFIELD read set u4 0 1"),
    (1, "BITFIELD read get u4 0 set u4 0 1"),
    (1, "BITFIELD rw incrby u4 0 1"),
    (1, "LPUSH read 1"),
    (1, "XREAD STREAMS read nothing 0 0"),
    (1, "XREAD COUNT 1 STREAMS read 0"),
    (1, "ZUNIONSTORE write3 2 read1 read2"),
    (1, "ZUNIONSTORE write3 2 read1 write1"),
    // SORT
    (0, "RPUSH mylist 1"),
    (0, "SET v1 1"),
    (0, "ACL SETUSER sorts on nopass (+sort ~mylist)"),
    (1, "AUTH sorts x"),
    (1, "SORT mylist by v*"),
    (1, "SORT mylist get v*"),
    (1, "SORT mylist by nosort"),
    (1, "SORT mylist get #"),
    (0, "ACL SETUSER sorts (+sort ~mylist ~v*)"),
    (1, "SORT mylist by v*"),
    (0, "ACL SETUSER sorts (+sort ~mylist %W~*)"),
    (1, "SORT mylist get v*"),
    (0, "ACL SETUSER sorts (+sort ~mylist %R~*)"),
    (1, "SORT mylist by v*"),
    // DRYRUN
    (0, "ACL SETUSER dry +@all %R~read* %W~write* %RW~rw* &channel"),
    (0, "ACL DRYRUN dry GET read"),
    (0, "ACL DRYRUN not-a-user GET read"),
    (0, "ACL DRYRUN dry not-a-command read"),
    (0, "ACL DRYRUN dry client nosuch"),
    (0, "ACL DRYRUN dry client"),
    (0, "ACL DRYRUN dry GET"),
    (0, "ACL DRYRUN dry SORT read STORE write"),
    (0, "ACL DRYRUN dry SORT read STORE read"),
    (0, "ACL DRYRUN dry SORT write STORE write"),
    (0, "ACL DRYRUN dry EVAL x 1 rw1"),
    (0, "ACL DRYRUN dry EVAL x 1 read"),
    (0, "ACL DRYRUN dry EVAL_RO x 1 read"),
    (0, "ACL DRYRUN dry EVAL x 0 read"),
    (0, "ACL DRYRUN dry EVAL x -1 read"),
    (0, "ACL DRYRUN dry EVAL x 3 rw read"),
    (0, "ACL DRYRUN dry GEORADIUS read longitude latitude radius M STOREDIST write"),
    (0, "ACL DRYRUN dry GEORADIUS read1 longitude latitude radius M STOREDIST read2"),
    (0, "ACL DRYRUN dry GEORADIUS write1 longitude latitude radius M STORE write2"),
    (0, "ACL DRYRUN dry HEXISTS write foo"),
    (0, "ACL DRYRUN dry HEXISTS nothing foo"),
    (0, "ACL DRYRUN dry SINTERCARD 2 read write"),
    (0, "ACL DRYRUN dry PFCOUNT write read"),
    (0, "ACL DRYRUN dry MEMORY USAGE write"),
    (0, "ACL DRYRUN dry MEMORY USAGE nothing"),
    (0, "ACL DRYRUN dry spublish otherchannel foo"),
    (0, "ACL DRYRUN dry ssubscribe otherchannel foo"),
    (0, "ACL DRYRUN dry sunsubscribe otherchannel"),
    (0, "ACL DRYRUN dry ACL LIST"),
    (0, "ACL SETUSER dry -@all"),
    (0, "ACL DRYRUN dry set somekey somevalue"),
    (0, "ACL DRYRUN dry ACL LIST"),
    // Wrong calls
    (0, "ACL"),
    (0, "ACL NOSUCH"),
    (0, "ACL HELP"),
    (0, "ACL HELP xxx"),
    (0, "ACL GETUSER"),
    (0, "ACL SETUSER"),
    (0, "ACL DELUSER"),
    (0, "ACL LIST x"),
    (0, "ACL CAT NON_EXISTS"),
    (0, "ACL CAT a b"),
    (0, "ACL CAT"),
    (0, "ACL GENPASS -236"),
    (0, "ACL GENPASS 5000"),
    (0, "ACL GENPASS x"),
    (0, "ACL GENPASS 1 2"),
    (0, "ACL LOAD"),
    (0, "ACL SAVE"),
    (0, "CONFIG SET acl-pubsub-default nosuch"),
    (0, "CONFIG SET acllog-max-len -1"),
    (0, "CONFIG SET aclfile x"),
    (0, "CONFIG GET acllog*"),
    (0, "CONFIG SET acl-pubsub-default allchannels"),
    (0, "ACL SETUSER channels"),
    (0, "ACL SETUSER channels &test"),
    (0, "ACL SETUSER channels reset (+get)"),
    (0, "ACL GETUSER channels"),
    (0, "CONFIG SET acl-pubsub-default resetchannels"),
    (0, "ACL SETUSER default reset on nopass ~* +@all"),
    (0, "PUBLISH hello world"),
    (0, "ACL SETUSER default allchannels"),
    // The default user
    (0, "CONFIG SET requirepass secret"),
    (0, "ACL SETUSER default -@all +acl +config +hello"),
    (0, "PING"),
    (1, "RESET"),
    (1, "PING"),
    (1, "HELLO 2"),
    (1, "AUTH default wrong"),
    (1, "AUTH secret"),
    (1, "PING"),
    (0, "ACL SETUSER default +@all nopass"),
    (1, "PING"),
    (1, "AUTH x"),
    (0, "CONFIG GET requirepass"),
    (0, "ACL SETUSER default off"),
    (1, "PING"),
    (1, "RESET"),
    (1, "PING"),
    (0, "ACL SETUSER default on"),
    (1, "PING"),
    (1, "ACL WHOAMI"),
    (0, "ACL SETUSER gone on nopass +@all"),
    (1, "AUTH gone x"),
    (1, "ACL DELUSER gone"),
];

/// A flag of users that Redis 7.0 does not show.
fn is_later(reply: &Reply) -> bool {
    *reply == Reply::Bulk("sanitize-payload".into())
}

/// A reply without what differs from run to run: times, addresses, and the order of rules on commands.
fn steady(reply: Reply) -> Reply {
    match reply {
        Reply::Bulk(text) => {
            let text = String::from_utf8_lossy(&text).into_owned();
            if text.starts_with("id=") {
                let user = text.split(' ').find(|field| field.starts_with("user="));
                return Reply::Bulk(user.unwrap_or_default().into());
            }
            let is_rules = text.contains("-@all") || text.contains("+@all");
            let mut words: Vec<_> = text.split(' ').collect();
            if is_rules {
                // Redis 7.2 shows rules on commands as they were given, and `sanitize-payload`.
                words.retain(|word| !word.starts_with(['+', '-']) && *word != "sanitize-payload");
                words.sort_unstable();
            }
            Reply::Bulk(words.join(" ").into())
        }
        Reply::Array(items) => {
            let items = items.into_iter().filter(|item| !is_later(item));
            let mut items: Vec<_> = items.map(steady).collect();
            let age = items.iter().position(|it| *it == Reply::Bulk("age-seconds".into()));
            if let Some(age) = age {
                items[age + 1] = Reply::Nil;
            }
            Reply::Array(items)
        }
        Reply::Map(pairs) => {
            let pairs = pairs.into_iter().map(|(field, value)| {
                let is_age = field == Reply::Bulk("age-seconds".into());
                (field, if is_age { Reply::Nil } else { steady(value) })
            });
            Reply::Map(pairs.collect())
        }
        Reply::Set(items) => Reply::Set(items.into_iter().filter(|item| !is_later(item)).collect()),
        reply => reply,
    }
}

fn transcript(server: &Server) -> Vec<(Step, String)> {
    let mut clients: [Connection; 3] = [0, 1, 2].map(|_| server.connect());
    let steps = TRANSCRIPT.iter().map(|&(sender, line)| {
        clients[sender].send(encode_line(line));
        let reply = steady(clients[sender].reply()).to_string();
        let is_greeting = line.starts_with("HELLO") && !reply.starts_with('-');
        let reply = if is_greeting { "hello".into() } else { reply };
        ((sender, line), reply)
    });
    steps.collect()
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn users_may_do_what_they_may_do_on_redis_server() {
    let redis = Server::redis_server(&Options::default());
    let expected = transcript(&redis);
    for topology in TOPOLOGIES {
        let ours = transcript(&Server::start_in(topology));
        let pairs = ours.iter().zip(&expected);
        let differences: String = pairs
            .filter(|(ours, redis)| ours != redis)
            .map(|(ours, redis)| format!("\nours  {ours:?}\nredis {redis:?}"))
            .collect();
        assert_eq!(differences, "", "{topology}");
    }
}

/// The words of a reply, in order.
fn words(reply: Reply) -> Vec<String> {
    let Reply::Array(items) = reply else {
        panic!("{reply} instead of an array");
    };
    let text = |item: Reply| String::from_utf8(item.into_bytes()).unwrap();
    let mut words: Vec<_> = items.into_iter().map(text).collect();
    words.sort_unstable();
    words
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn categories_have_the_commands_of_redis_server() {
    let servers = [Server::start(), Server::redis_server(&Options::default())];
    let mut clients = servers.each_ref().map(Server::connect);
    let known = clients.each_mut().map(|client| words(client.request(&["COMMAND", "LIST"])));
    for category in words(clients[0].request(&["ACL", "CAT"])) {
        let members = clients.each_mut().map(|client| {
            let mut members = words(client.request(&["ACL", "CAT", &category]));
            // WAIT is a blocking command since Redis 7.2.
            members.retain(|name| name != "wait" && known.iter().all(|names| names.contains(name)));
            members
        });
        assert_eq!(members[0], members[1], "{category}");
    }
}
