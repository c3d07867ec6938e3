-- What scripts see of Lua. The interpreter calls this chunk once, with `native`: functions in Rust, by table.
-- Returns `run`, `register`, the table of globals, and the environments through which scripts and libraries read it.

local native = ...

local error, type, select, next, tostring = error, type, select, next, tostring
local rawset, rawget, setmetatable = rawset, rawget, setmetatable
local pcall, xpcall, gc = pcall, xpcall, collectgarbage
local tonumber, unpack = tonumber, unpack
local coroutine_resume, coroutine_create = coroutine.resume, coroutine.create
-- Lua as published has none.
local packed = packed or function(body, results)
  return function(...)
    body(nil, ...)
    return results[1]
  end
end
local string_find, string_match, string_gmatch, gsub, string_rep =
  string.find, string.match, string.gmatch, string.gsub, string.rep
local table_concat, table_sort = table.concat, table.sort

-- Patterns recurse in C, once for each of their items.
local PATTERN_LEN_MAX = 2048

-- Native functions raise userdata. What a script may catch, it gets as the error object or the text that it stands for.
-- The rest stops the script: its client has gone, or memory has run out. `nil` stands for that.
local function value_of(err)
  if type(err) ~= 'userdata' or err == native.null then return err end
  return native.value_of(err)
end

local function caught(ok, ...)
  if ok then return ok, ... end
  local value = value_of((...))
  if value == nil and (...) ~= nil then error((...), 0) end
  return ok, value
end

local function check_depth()
  if native.is_deep() then error('stack overflow', 3) end
end

local readonly_contents = setmetatable({}, {__mode = 'k'})
local readonly_views = setmetatable({}, {__mode = 'k'})
local readonly_proxies = {}

local function refuse_change()
  error('Attempt to modify a readonly table', 2)
end

-- What scripts get for the metatable of a readonly table.
local sealed = setmetatable({}, {__newindex = refuse_change, __metatable = false})
readonly_contents[sealed] = {}
readonly_proxies[1] = sealed

-- The second result decides what the first one shows.
local function readonly(contents)
  local view = {__index = contents, __newindex = refuse_change, __metatable = sealed}
  local proxy = setmetatable({}, view)
  readonly_contents[proxy] = contents
  readonly_views[proxy] = view
  readonly_proxies[#readonly_proxies + 1] = proxy
  return proxy, view
end

-- Some functions of Lua write into tables past their metatables.
local function wipe()
  for i = 1, #readonly_proxies do
    local proxy = readonly_proxies[i]
    if next(proxy) ~= nil then
      for key in next, proxy do rawset(proxy, key, nil) end
    end
  end
end

local globals = {
  _VERSION = _VERSION, assert = assert, error = error, gcinfo = gcinfo, ipairs = ipairs,
  rawequal = rawequal, select = select, tonumber = tonumber, tostring = tostring, type = type,
  getmetatable = getmetatable,
}

-- What a readonly table shows is listed one by one: the table that has it stays here.
function globals.next(t, key)
  local view = readonly_views[t]
  return next(view and view.__index or t, key)
end

function globals.pairs(t)
  if type(t) ~= 'table' then
    error("bad argument #1 to 'pairs' (table expected, got " .. type(t) .. ')', 2)
  end
  return readonly_views[t] and globals.next or next, t, nil
end

-- An error object of Redis becomes its line, as in Redis.
local function lined(ok, ...)
  if ok then return ok, ... end
  local err = ...
  if type(err) == 'table' and type(rawget(err, 'err')) == 'string' then err = rawget(err, 'err') end
  return ok, err
end

function globals.pcall(...) return lined(caught(pcall(...))) end

function globals.xpcall(body, handler)
  return caught(xpcall(body, function(err)
    local value = value_of(err)
    if value == nil and err ~= nil then return err end
    -- An error of the handler calls the handler, on top of what failed: up to 200 times, with 9 KB of stack for each.
    if native.is_deep() then return 'error in error handling' end
    return handler(value)
  end))
end

function globals.unpack(list, first, last)
  if type(list) ~= 'table' then
    error("bad argument #1 to 'unpack' (table expected, got " .. type(list) .. ')', 2)
  end
  local from, to = tonumber(first or 1), tonumber(last or #list)
  if from and to and to - from >= native.values_max then error('too many results to unpack', 2) end
  return unpack(list, first, last)
end

function globals.rawget(t, key)
  return rawget(readonly_contents[t] or t, key)
end

function globals.rawset(t, key, value)
  if readonly_contents[t] then error('Attempt to modify a readonly table', 0) end
  return rawset(t, key, value)
end

function globals.setmetatable(t, metatable)
  if readonly_contents[t] then error('Attempt to modify a readonly table', 0) end
  return setmetatable(t, metatable)
end

function globals.collectgarbage(what)
  if what == 'count' then return gc('count') end
  if what == nil or what == 'collect' or what == 'step' then return gc(what) end
  return 0
end

local environment = readonly(globals)
globals._G = environment

function globals.loadstring(text, name)
  if type(text) ~= 'string' then error("bad argument #1 to 'loadstring' (string expected)", 2) end
  return native.load(environment, text, name)
end

function globals.load(reader, name)
  if type(reader) ~= 'function' then return globals.loadstring(reader, name) end
  local pieces = {}
  for piece in reader do
    if piece == '' then break end
    pieces[#pieces + 1] = piece
  end
  return native.load(environment, table.concat(pieces), name or '=(load)')
end

local function copy(library)
  local copied = {}
  for name, member in next, library do copied[name] = member end
  return copied
end

local strings = copy(string)
strings.dump = nil

local function check_pattern(pattern)
  if type(pattern) == 'string' and #pattern > PATTERN_LEN_MAX then error('pattern too long', 3) end
end

-- Functions in C run to their end. The server hears of those that take long before they begin.
local STEPS_MAX = 16384

local function begins(steps)
  if steps > STEPS_MAX then native.begins() end
end

-- `text` may be anything: the function in C raises the error.
local function begins_match(text, pattern)
  if type(text) == 'string' and type(pattern) == 'string' then begins(#text * #pattern) end
end

function strings.rep(text, times)
  if type(text) == 'string' and type(times) == 'number' then begins(#text / 16 * times) end
  return string_rep(text, times)
end

function strings.find(text, pattern, init, plain)
  if not plain then check_pattern(pattern) end
  begins_match(text, pattern)
  return string_find(text, pattern, init, plain)
end

function strings.match(text, pattern, ...)
  check_pattern(pattern)
  begins_match(text, pattern)
  return string_match(text, pattern, ...)
end

function strings.gmatch(text, pattern)
  check_pattern(pattern)
  begins_match(text, pattern)
  return string_gmatch(text, pattern)
end

function strings.gsub(text, pattern, replacement, ...)
  check_pattern(pattern)
  begins_match(text, pattern)
  if type(replacement) ~= 'string' then check_depth() end
  return gsub(text, pattern, replacement, ...)
end

-- Its old name.
strings.gfind = strings.gmatch

local tables = copy(table)

function tables.concat(t, ...)
  if type(t) == 'table' then begins(#t * 8) end
  return table_concat(t, ...)
end

function tables.sort(t, ...)
  if type(t) == 'table' then begins(#t * 64) end
  return table_sort(t, ...)
end

local coroutines = copy(coroutine)

function coroutines.resume(...)
  check_depth()
  return caught(coroutine_resume(...))
end

local function resumed(ok, ...)
  if not ok then error((...), 0) end
  return ...
end

function coroutines.wrap(body)
  local thread = coroutine_create(body)
  return function(...)
    check_depth()
    return resumed(coroutine_resume(thread, ...))
  end
end

globals.string = readonly(strings)
globals.table = readonly(tables)
globals.math = readonly(copy(math))
globals.coroutine = readonly(coroutines)
globals.os = readonly({clock = os.clock})
local text_metatable = getmetatable('')
text_metatable.__index = strings
text_metatable.__metatable = false

for name, functions in next, native.libraries do
  if name == 'cjson' then functions.null = native.null end
  globals[name] = readonly(functions)
end

local redis = native.redis

function redis.replicate_commands() return true end
function redis.breakpoint() return false end
function redis.debug() end

globals.redis = readonly(redis)
-- Valkey's name for it.
globals.server = globals.redis

local strict = {__index = function(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end}
setmetatable(globals, strict)

-- While a library is loaded, it sees little more than the function with which it registers others.
local registering = readonly(setmetatable(native.loading, strict))
local loading = setmetatable({redis = registering, server = registering}, strict)
local library_environment, library_view = readonly(globals)

-- Turns an error into Redis's error object, with the line of the script.
local function handler(err)
  local value = value_of(err)
  if value == nil and err ~= nil then return err end
  err = value
  if type(err) ~= 'table' then err = {err = 'ERR ' .. tostring(err)} end
  local source, line = native.place()
  if source then
    rawset(err, 'source', source)
    rawset(err, 'line', line)
  end
  return err
end

-- `call` and `pcall` are those of this run. A function gets its keys and arguments, which scripts have as globals.
local function run(script, call, pcall, keys, args)
  redis.call, redis.pcall = packed(call, native.results), packed(pcall, native.results)
  local body = script
  if keys then
    rawset(globals, 'KEYS', nil)
    rawset(globals, 'ARGV', nil)
    body = function() return script(keys, args) end
  end
  local ok, result = xpcall(body, handler)
  native.results[1] = nil
  wipe()
  return ok, result
end

-- Runs the text of a library. Returns nothing, or the line of an error, or why the server has stopped it.
local function register(chunk)
  library_view.__index = loading
  local ok, err = pcall(chunk)
  library_view.__index = globals
  wipe()
  if ok then return nil end
  local value = value_of(err)
  if value == nil and err ~= nil then return err end
  if type(value) == 'table' then return rawget(value, 'err') end
  return 'ERR ' .. tostring(value)
end

return run, register, globals, environment, library_environment
