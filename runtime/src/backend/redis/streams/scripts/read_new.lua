-- Behind skipped.lua: reads new entries of several logs. KEYS: logs. ARGV: group, consumer, how many of each, how many in
-- all. Returns what was skipped, and each log with its entries.
local told = skipped(KEYS, ARGV[1])
if told.err then
  return told
end
local each, left = tonumber(ARGV[3]), tonumber(ARGV[4])
local read = {}
for _, log in ipairs(KEYS) do
  local count = math.min(each, left)
  local found = redis.pcall('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', count, 'STREAMS', log, '>')
  if found and found.err then
    -- What was found before comes first; the next read is refused again.
    if #told + #read > 0 then
      break
    end
    return found
  end
  if found then
    read[#read + 1] = found[1][1]
    read[#read + 1] = found[1][2]
    left = left - #found[1][2]
    if left <= 0 then
      break
    end
  end
end
return { told, read }
