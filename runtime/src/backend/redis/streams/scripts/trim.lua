-- Removes what every group has acknowledged. KEYS: log. Returns how many entries that were.
local function before(a, b)
  -- The halves are longer than Lua's numbers are exact, so they are compared as digits.
  local a_high, a_low = string.match(a, '^(%d+)-(%d+)$')
  local b_high, b_low = string.match(b, '^(%d+)-(%d+)$')
  if #a_high ~= #b_high then
    return #a_high < #b_high
  end
  if a_high ~= b_high then
    return a_high < b_high
  end
  if #a_low ~= #b_low then
    return #a_low < #b_low
  end
  return a_low < b_low
end
local keep
local all = true
local groups = redis.call('XINFO', 'GROUPS', KEYS[1])
if #groups == 0 then
  return 0
end
for _, group in ipairs(groups) do
  local field = {}
  for i = 1, #group, 2 do
    field[group[i]] = group[i + 1]
  end
  local pending = redis.call('XPENDING', KEYS[1], field['name'])
  local first = pending[1] > 0 and pending[2]
  if not first then
    local unread = redis.call('XRANGE', KEYS[1], '(' .. field['last-delivered-id'], '+', 'COUNT', 1)[1]
    first = unread and unread[1]
  end
  if first then
    all = false
    if not keep or before(first, keep) then
      keep = first
    end
  end
end
if all then
  return redis.call('XTRIM', KEYS[1], 'MAXLEN', '=', 0)
end
return redis.call('XTRIM', KEYS[1], 'MINID', '=', keep)
