-- Starts the clock anew of entries that are pending for the consumer. KEYS: log. ARGV: group, consumer, ids. Returns
-- their ids. One that is gone from the log stays pending, for a claim to tell: XCLAIM would drop it in silence.
local kept = {}
for i = 3, #ARGV do
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)[1]
  if pending and pending[2] == ARGV[2] then
    if #redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i]) > 0 then
      redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
    end
    kept[#kept + 1] = ARGV[i]
  end
end
return kept
