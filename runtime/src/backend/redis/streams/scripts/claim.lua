-- Takes over entries that have been idle. KEYS: log. ARGV: group, consumer, idle time in ms, where to begin, count. Returns
-- the entries, the ids of those that are gone and with them pending no longer, how often each entry was delivered, and
-- where to go on.
local found = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5])
local counts = {}
for i, entry in ipairs(found[2]) do
  counts[i] = redis.call('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)[1][4]
end
return {found[2], found[3], counts, found[1]}
