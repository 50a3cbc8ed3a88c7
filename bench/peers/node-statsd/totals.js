// A backend for StatsD's daemon: sums the counters of all flushes and writes the sum to a file.
//
// Configuration: `totals: "/path/of/the/file"`.
const { renameSync, writeFileSync } = require('node:fs')

exports.init = function init(startupTime, config, events) {
  let lines = 0
  events.on('flush', (time, metrics) => {
    for (const [name, value] of Object.entries(metrics.counters)) {
      // The daemon's own counters are listed beside those that were sent.
      if (!name.startsWith('statsd.')) lines += value
    }
    writeFileSync(`${config.totals}.new`, String(lines))
    renameSync(`${config.totals}.new`, config.totals)
  })
  return true
}
