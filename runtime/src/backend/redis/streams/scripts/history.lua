-- Redelivers a consumer's own pending entries. KEYS: log. ARGV: group, consumer, after, count. Returns the entries, the
-- ids of those that are gone and with them pending no longer, and how often each entry was delivered.
local found = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', ARGV[4], 'STREAMS', KEYS[1], ARGV[3])
local entries, lost, counts = {}, {}, {}
for _, entry in ipairs(found and found[1][2] or {}) do
  if entry[2] then
    entries[#entries + 1] = entry
    counts[#counts + 1] = redis.call('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)[1][4]
  else
    lost[#lost + 1] = entry[1]
    redis.call('XACK', KEYS[1], ARGV[1], entry[1])
  end
end
return {entries, lost, counts}
