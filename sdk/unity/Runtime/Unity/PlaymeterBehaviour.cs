using System.IO;
using UnityEngine;

namespace Playmeter
{
    /// <summary>
    /// Runs one client for the whole game. Add it to a GameObject of the first scene, set URL and key in the inspector, and call
    /// <c>PlaymeterBehaviour.Client.Track("jump")</c>.
    /// </summary>
    public sealed class PlaymeterBehaviour : MonoBehaviour
    {
        [SerializeField] private string url = "https://play.example.org";
        [SerializeField] private string publicKey = "pm_pk_...";
        [SerializeField] private bool sessions = true;

        /// <summary>The client, from <c>Awake</c> of this component on.</summary>
        public static PlaymeterClient Client { get; private set; }

        private bool isOwner;

        private void Awake()
        {
            if (Client != null)
            {
                Destroy(gameObject);
                return;
            }
            isOwner = true;
            DontDestroyOnLoad(gameObject);
            var folder = Application.persistentDataPath;
            var options = new PlaymeterOptions
            {
                Version = Application.version,
                Platform = Application.platform.ToString(),
                Sessions = sessions,
                QueueFile = Path.Combine(folder, "playmeter_queue.txt"),
                PlayerFile = Path.Combine(folder, "playmeter_player.txt"),
            };
            Client = new PlaymeterClient(url, publicKey, options, new UnityTransport(this));
            Client.EventsLost += (code, count) => Debug.LogWarning("Playmeter: " + count + " events lost: " + code);
            Client.Failed += error => Debug.LogWarning("Playmeter: " + error);
        }

        private void Update()
        {
            if (isOwner)
            {
                Client.Tick();
            }
        }

        private void OnApplicationPause(bool isPaused)
        {
            if (isOwner && isPaused)
            {
                // The system may end the game while it is in the background.
                Client.Flush();
            }
        }

        private void OnApplicationQuit()
        {
            if (isOwner)
            {
                // The next start sends it from the file.
                Client.EndSession();
            }
        }
    }
}
