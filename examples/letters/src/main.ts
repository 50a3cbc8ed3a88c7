/** Entry point of the game. */
import './style.css'
import { App } from './app'
import { clampInt } from './puzzle'
import { home } from './screens/home'

const app = new App(document)
app.backend.track('$view')
app.backend.watch(({ hue, speech_rate }) => {
  document.documentElement.style.setProperty('--hue', String(clampInt(hue, { min: 0, max: 360 })))
  app.voice.rate = Math.min(2, Math.max(0.3, Number(speech_rate) || 1))
})
app.show(home(app))
