-- Reads new entries of several logs, so many in all. KEYS: logs. ARGV: group, consumer, count.
local left = tonumber(ARGV[3])
local read = {}
for i = 1, #KEYS do
  local found = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', left, 'STREAMS', KEYS[i], '>')
  if found then
    read[#read + 1] = found[1][1]
    read[#read + 1] = found[1][2]
    left = left - #found[1][2]
    if left <= 0 then
      break
    end
  end
end
return read
