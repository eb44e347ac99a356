//! Scripts that the engine runs atomically.

/// Writes a member's key, and adds the member to the set with the engine's time, because the clocks of nodes may be wrong. Does
/// neither if the epoch has changed, or the stream lacks one of two entries. Returns whether the stream is complete, and the
/// epoch. `KEYS`: the member's key, the set, the epoch, the stream. `ARGV`: the entry, milliseconds, the member, seconds after
/// which a member is removed, the previous entry or an empty string, the epoch.
///
/// The first write takes no memory: an engine at its `maxmemory` rejects scripts that begin with one that does. Otherwise a full
/// engine would end the leases of all nodes.
pub(crate) const REGISTER: &str = "\
local epoch = redis.call('EXISTS', KEYS[3]) == 1 and redis.call('GETRANGE', KEYS[3], 0, 63)
if ARGV[5] ~= '' then
  if epoch ~= ARGV[6] then return {0, epoch} end
  for at = 1, 5, 4 do
    if #redis.call('XRANGE', KEYS[4], ARGV[at], ARGV[at]) == 0 then return {0, epoch} end
  end
end
local now = tonumber(redis.call('TIME')[1])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - tonumber(ARGV[4]))
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('ZADD', KEYS[2], now, ARGV[3])
return {1, epoch}";

/// Gives an empty stream a new epoch and an entry that purges nothing, so that nodes have an entry for renewing their keys.
/// `KEYS`: the stream, the epoch. `ARGV`: a random text. The first write takes no memory, as in [`REGISTER`].
pub(crate) const BEGIN: &str = "\
redis.call('XTRIM', KEYS[1], 'MAXLEN', '~', 1000000)
if redis.call('XLEN', KEYS[1]) == 0 then
  redis.call('XADD', KEYS[1], '*', 'begin', 1)
  redis.call('SET', KEYS[2], ARGV[1])
elseif redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('SET', KEYS[2], ARGV[1])
end";

/// Appends all entries or none, and removes old ones. Returns 1 and the ids; 0 and the highest id of the stream, if the first id is
/// not above it; 2, if there is no stream. `KEYS`: the stream. `ARGV`: the number of entries to keep, 'full' or an empty string,
/// then for each entry: the id or '*', twice the number of fields, their names and values.
///
/// At a full engine, the first write takes no memory, as in [`REGISTER`].
pub(crate) const APPEND: &str = "\
if redis.call('EXISTS', KEYS[1]) == 0 then return {2, {}} end
if ARGV[2] == 'full' then redis.call('XTRIM', KEYS[1], 'MAXLEN', '~', ARGV[1]) end
local ids, at = {}, 3
while at <= #ARGV do
  local to = at + 1 + tonumber(ARGV[at + 1])
  local id = redis.pcall('XADD', KEYS[1], 'NOMKSTREAM', 'MAXLEN', '~', ARGV[1], ARGV[at], unpack(ARGV, at + 2, to))
  if type(id) == 'table' then
    if at > 3 or not string.find(id.err, 'equal or smaller') then return id end
    local info = redis.call('XINFO', 'STREAM', KEYS[1])
    for field = 1, #info, 2 do
      if info[field] == 'last-generated-id' then return {0, {info[field + 1]}} end
    end
    return id
  end
  ids[#ids + 1] = id
  at = to + 1
end
return {1, ids}";

/// The id of the last of the newest entries, or false. `KEYS`: the stream. `ARGV`: their number. The entries themselves may be long.
pub(crate) const NEWEST: &str = "\
local found = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', ARGV[1])
return #found > 0 and found[#found][1]";

/// Whether the stream has an entry. `KEYS`: the stream. `ARGV`: the id.
pub(crate) const HAS: &str = "\
return #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])";

/// Removes the next entry if it is longer than any of a node. Returns its id, or false. `KEYS`: the stream. `ARGV`: the entry
/// before, the maximum size.
pub(crate) const REMOVE_LONG: &str = "\
local entry = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', 1)[1]
if not entry then return false end
local size = 0
for _, text in ipairs(entry[2]) do size = size + #text end
if size <= tonumber(ARGV[2]) then return false end
redis.call('XDEL', KEYS[1], entry[1])
return entry[1]";

/// Writes a member's head, and returns the members with whether their key is there, and their head. Longer names and heads are of
/// no node. `KEYS`: the set, the head. `ARGV`: the head, milliseconds, the prefixes of the keys and of the heads, the maximum
/// number of members, the maximum size of a head, further members, which others may have moved out of the newest ones. The first write takes no memory, as in [`REGISTER`].
pub(crate) const HEADS: &str = "\
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', 0)
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
local members = redis.call('ZREVRANGE', KEYS[1], 0, tonumber(ARGV[5]) - 1)
for at = 7, #ARGV do members[#members + 1] = ARGV[at] end
local found, is_known = {}, {}
for _, member in ipairs(members) do
  if #member <= 512 and not is_known[member] then
    is_known[member] = true
    local head = redis.pcall('GETRANGE', ARGV[4] .. member, 0, ARGV[6])
    if type(head) == 'table' then head = '' end
    found[#found + 1] = {member, redis.call('EXISTS', ARGV[3] .. member), head}
  end
end
return found";

/// The epoch, the members, and the values of their keys. `KEYS`: the set, the epoch. `ARGV`: the prefix of the keys, further
/// members.
pub(crate) const PROGRESS: &str = "\
local members = redis.call('ZRANGE', KEYS[1], 0, -1)
for at = 2, #ARGV do members[#members + 1] = ARGV[at] end
local keys = {}
for at, member in ipairs(members) do keys[at] = ARGV[1] .. member end
local applied = {}
if #keys > 0 then applied = redis.call('MGET', unpack(keys)) end
return {redis.call('EXISTS', KEYS[2]) == 1 and redis.call('GETRANGE', KEYS[2], 0, 63), members, applied}";
