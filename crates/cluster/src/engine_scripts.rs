//! Scripts that the engine runs atomically.

/// Writes a member's key, and adds the member to the set with the engine's time, because the clocks of nodes may be wrong. Does
/// neither if the epoch has changed, or the stream lacks one of two entries. Returns whether the stream is complete, and the
/// epoch. `KEYS`: the member's key, the set, the epoch, the stream. `ARGV`: the entry, milliseconds, the member, seconds after
/// which a member is removed, the previous entry or an empty string, the epoch.
///
/// The first write takes no memory: an engine at its `maxmemory` rejects scripts that begin with one that does. Otherwise a full
/// engine would end the leases of all nodes.
pub(crate) const REGISTER: &str = "\
local epoch = redis.call('GET', KEYS[3])
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

/// Appends an entry to the stream of a full engine, after removing old ones. `KEYS`: the stream. `ARGV`: the number of entries to
/// keep, the names and values of the fields.
pub(crate) const APPEND_WHEN_FULL: &str = "\
redis.call('XTRIM', KEYS[1], 'MAXLEN', '~', ARGV[1])
return redis.call('XADD', KEYS[1], 'NOMKSTREAM', '*', unpack(ARGV, 2))";

/// The epoch, the members, and the values of their keys. `KEYS`: the set, the epoch. `ARGV`: the prefix of the keys, further
/// members.
pub(crate) const PROGRESS: &str = "\
local members = redis.call('ZRANGE', KEYS[1], 0, -1)
for at = 2, #ARGV do members[#members + 1] = ARGV[at] end
local keys = {}
for at, member in ipairs(members) do keys[at] = ARGV[1] .. member end
local applied = {}
if #keys > 0 then applied = redis.call('MGET', unpack(keys)) end
return {redis.call('GET', KEYS[2]), members, applied}";
