/** Letters: which one is missing? */
import './style.css'
import { App } from './app'
import { within } from './puzzle'
import { home } from './screens/home'

const app = new App(document)
app.line.track('$view')
app.line.watch(({ hue, speech_rate }) => {
  document.documentElement.style.setProperty('--hue', String(within(hue, { min: 0, max: 360 })))
  app.voice.rate = Math.min(2, Math.max(0.3, Number(speech_rate) || 1))
})
app.show(home(app))
