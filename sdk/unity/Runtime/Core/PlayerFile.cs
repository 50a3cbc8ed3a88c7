using System;
using System.IO;

namespace Playmeter
{
    internal static class PlayerFile
    {
        /// <summary>Returns the id in the file, or <paramref name="created"/>, which it stores there.</summary>
        internal static string LoadOrCreate(string path, string created)
        {
            if (path == null)
            {
                return created;
            }
            try
            {
                var known = File.Exists(path) ? File.ReadAllText(path).Trim() : "";
                if (known.Length > 0)
                {
                    return known;
                }
                File.WriteAllText(path, created);
            }
            catch (Exception failure) when (failure is IOException || failure is UnauthorizedAccessException)
            {
                // Without the file, the player has another id at the next start.
            }
            return created;
        }
    }
}
