-- Gives back entries that are pending for the consumer: idle since 1970, and with one delivery less. KEYS: log. ARGV:
-- group, consumer, perhaps `new`, ids. With `new` only those that were delivered once: another has been found in the
-- consumer's history since. One that is gone from the log stays pending, for a claim to tell.
local time = redis.call('TIME')[1] * 1000
local new = ARGV[3] == 'new'
for i = new and 4 or 3, #ARGV do
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)[1]
  -- One that was given back already has been idle as long, and its count stays.
  local mine = pending and pending[2] == ARGV[2] and pending[3] < time and not (new and pending[4] > 1)
  if mine and #redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i]) > 0 then
    local count = math.max(pending[4] - 1, 0)
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'TIME', 0, 'RETRYCOUNT', count, 'JUSTID')
  end
end
return 1
