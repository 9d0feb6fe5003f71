local function fields(list)
  local named = {}
  for i = 1, #list, 2 do
    named[list[i]] = list[i + 1]
  end
  return named
end
-- Whether an id comes before another. Their halves may be beyond what a number here holds exactly.
local function before(id, other)
  local high, low = string.match(id, '(%d+)-(%d+)')
  local others_high, others_low = string.match(other, '(%d+)-(%d+)')
  local function less(digits, others)
    return #digits < #others or #digits == #others and digits < others
  end
  return less(high, others_high) or high == others_high and less(low, others_low)
end
-- Tells where entries were removed before a group had them, and counts them as read, so that it is told once. Returns for
-- each such log its key, the id of the first entry left and 1, or the last id given and 0 where none is left, and 1 where
-- it is certain. Or an error.
local function skipped(logs, name)
  local told, counts = {}, {}
  for _, log in ipairs(logs) do
    local groups = redis.pcall('XINFO', 'GROUPS', log)
    if groups.err then
      -- That there is none, or something else, is for the read to say.
      if not string.find(groups.err, 'no such key', 1, true) and not string.find(groups.err, 'WRONGTYPE', 1, true) then
        return groups
      end
      groups = {}
    end
    for _, group in ipairs(groups) do
      group = fields(group)
      local last = group['last-delivered-id']
      -- Where fewer are unread than there are, or an entry is left that the group has had, nothing behind it was removed.
      -- The first needs no copy of an entry.
      local read, lag = group['entries-read'], group['lag']
      if group['name'] == name and not (read and lag and lag < redis.call('XLEN', log))
        and #redis.call('XRANGE', log, '-', last, 'COUNT', 1) == 0 then
        local info = fields(redis.call('XINFO', 'STREAM', log))
        local removed = info['entries-added'] - info['length']
        -- A group of others' that begins at the front doesn't count what was gone before.
        local certain = read and read < removed
        local perhaps = not read and removed > 0 and last ~= '0-0'
        if before(last, info['last-generated-id']) and (certain or perhaps) then
          local first = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
          -- One that was deleted from the middle may be what is missing.
          local middle = first and before(first[1], info['max-deleted-entry-id'])
          told[#told + 1] = log
          told[#told + 1] = first and first[1] or info['last-generated-id']
          told[#told + 1] = first and 1 or 0
          told[#told + 1] = (certain and not middle) and 1 or 0
          counts[#counts + 1] = { log, name, last, 'ENTRIESREAD', string.format('%.0f', removed) }
        end
      end
    end
  end
  -- Once all logs have been looked at, so that an error leaves it to be told.
  for _, count in ipairs(counts) do
    redis.call('XGROUP', 'SETID', unpack(count))
  end
  return told
end
