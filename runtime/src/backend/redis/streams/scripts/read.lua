-- Reads with what tells whether something was removed. KEYS: log. ARGV: position, count. Returns the number of entries,
-- how many there ever were, the last id given, the first entry's id, and entries after the position.
local info = redis.call('XINFO', 'STREAM', KEYS[1])
local field = {}
for i = 1, #info, 2 do
  field[info[i]] = info[i + 1]
end
local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
return {
  field['length'],
  field['entries-added'],
  field['last-generated-id'],
  first and first[1] or '0-0',
  redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', ARGV[2]),
}
