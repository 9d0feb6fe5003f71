-- Tells where entries were removed before a group had them, and counts them as read, so that it is told once. KEYS: logs.
-- ARGV: group. Returns for each such log its key, the id of the first entry left and 1, or the last id given and 0 where
-- none is left, and 1 where it is certain.
local function fields(list)
  local named = {}
  for i = 1, #list, 2 do
    named[list[i]] = list[i + 1]
  end
  return named
end
local told = {}
for _, log in ipairs(KEYS) do
  local groups = redis.pcall('XINFO', 'GROUPS', log)
  if groups.err then
    -- That there is none is for the read to say.
    if not string.find(groups.err, 'no such key', 1, true) then
      return groups
    end
    groups = {}
  end
  for _, group in ipairs(groups) do
    group = fields(group)
    local last = group['last-delivered-id']
    -- While an entry is left that the group has had, nothing behind it was removed.
    if group['name'] == ARGV[1] and #redis.call('XRANGE', log, '-', last, 'COUNT', 1) == 0 then
      local info = fields(redis.call('XINFO', 'STREAM', log))
      local removed = info['entries-added'] - info['length']
      local read = group['entries-read']
      -- A group of others' that begins at the front doesn't count what was gone before.
      local certain = read and read < removed
      local perhaps = not read and removed > 0 and last ~= '0-0'
      if last ~= info['last-generated-id'] and (certain or perhaps) then
        local first = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
        told[#told + 1] = log
        told[#told + 1] = first and first[1] or info['last-generated-id']
        told[#told + 1] = first and 1 or 0
        told[#told + 1] = certain and 1 or 0
        redis.call('XGROUP', 'SETID', log, ARGV[1], last, 'ENTRIESREAD', removed)
      end
    end
  end
end
return told
