-- Appends a record unless its id was stored within the window. KEYS: log, ids, times of the ids. ARGV: id, window in ms,
-- partition, then XADD's arguments after the key. Returns the entry's id, or `=` with the partition and the entry's id of
-- the first one, or nothing where there is no stream.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local past = now - ARGV[2]
local stored = redis.call('ZSCORE', KEYS[3], ARGV[1])
if stored and tonumber(stored) > past then
  if redis.call('EXISTS', KEYS[1]) == 0 then
    return false
  end
  local first = redis.call('HGET', KEYS[2], ARGV[1])
  if first then
    return '=' .. first
  end
end
local id = redis.call('XADD', KEYS[1], unpack(ARGV, 4))
if not id then
  return false
end
redis.call('ZADD', KEYS[3], now, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3] .. ' ' .. id)
-- More than one goes with each that comes, so that what is out of the window goes in time.
local old = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', past, 'LIMIT', 0, 16)
if #old > 0 then
  redis.call('ZREM', KEYS[3], unpack(old))
  redis.call('HDEL', KEYS[2], unpack(old))
end
return id
