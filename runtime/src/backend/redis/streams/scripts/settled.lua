-- Tells up to where a group has everything acknowledged. KEYS: log. ARGV: group. Returns how that is known and an id:
-- `at` the id, or `below` it; or nothing.
local pending = redis.call('XPENDING', KEYS[1], ARGV[1])
if pending[1] > 0 then
  local before = redis.call('XREVRANGE', KEYS[1], '(' .. pending[2], '-', 'COUNT', 1)[1]
  if before then
    return {'at', before[1]}
  end
  local info = redis.call('XINFO', 'STREAM', KEYS[1])
  local field = {}
  for i = 1, #info, 2 do
    field[info[i]] = info[i + 1]
  end
  -- Where nothing was ever removed, nothing stood before what is pending.
  if field['entries-added'] == field['length'] then
    return false
  end
  return {'below', pending[2]}
end
for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local field = {}
  for i = 1, #group, 2 do
    field[group[i]] = group[i + 1]
  end
  if field['name'] == ARGV[1] and field['last-delivered-id'] ~= '0-0' then
    return {'at', field['last-delivered-id']}
  end
end
return false
