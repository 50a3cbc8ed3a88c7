// A backend for StatsD's daemon: adds up the counters of all flushes and keeps the sum in a file.
//
// Configured by `totals: "/path/of/the/file"`.
const { renameSync, writeFileSync } = require('node:fs')

exports.init = function init(startupTime, config, events) {
  let lines = 0
  events.on('flush', (time, metrics) => {
    for (const [name, value] of Object.entries(metrics.counters)) {
      // Its own counters stand beside those that were sent.
      if (!name.startsWith('statsd.')) lines += value
    }
    writeFileSync(`${config.totals}.new`, String(lines))
    renameSync(`${config.totals}.new`, config.totals)
  })
  return true
}
